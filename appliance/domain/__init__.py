# SPDX-License-Identifier: Apache-2.0
"""What the appliance is about, as plain typed code: no HTTP, no subprocess."""
