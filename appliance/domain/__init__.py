# SPDX-License-Identifier: Apache-2.0
"""Rules and data of the appliance as plain typed code: no HTTP, no subprocess."""
