# SPDX-License-Identifier: Apache-2.0
"""The HTTP process: checks requests as HTTP and passes them to the worker. It has no database, no key and no privilege."""
