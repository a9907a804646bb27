# SPDX-License-Identifier: Apache-2.0
"""The ACE endpoint engine: programmable collectives next to the fabric interface."""
