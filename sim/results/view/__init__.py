# SPDX-License-Identifier: Apache-2.0
"""Pages of results that need no other file and no network: data, a template, a small script."""
