# SPDX-License-Identifier: Apache-2.0
"""Native models: straight-line C++ on 64-bit words, one class for each module (decision 27)."""
