# SPDX-License-Identifier: Apache-2.0
"""Endpoints: what a message occupies between memory and link, and what computation loses."""
