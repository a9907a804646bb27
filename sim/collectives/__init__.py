# SPDX-License-Identifier: Apache-2.0
"""Collective algorithms, written once: plans for events, programs for FSMs, golden results."""
