"""Endpoint kinds by the name that a description gives them."""

from typing import Any

from sim.endpoint.ideal import IdealEndpoint

__all__ = ["ENDPOINTS"]

ENDPOINTS: dict[str, Any] = {"ideal": IdealEndpoint}
