# SPDX-License-Identifier: Apache-2.0
"""Parts of benches and reports that belong to switches that reduce and their endpoints."""
