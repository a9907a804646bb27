# SPDX-License-Identifier: Apache-2.0
"""Runs of ASTRA-sim 2.x: their configurations, in its own formats, and what it printed of them.

``astra_sim_2.json`` holds them: systems, networks and works by name, then one case each with the
run time and the exposed communication (run time less computing, mean over NPUs) in ns. ``origin``
says what was run; ``files`` which parts have the values of an example that it comes with.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from bench._traces import groups_of, write_traces

__all__ = ["STORED", "Case", "cases"]

STORED = Path(__file__).with_name("astra_sim_2.json")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run. `system` and `network` as in its files; `work` as `write_traces` takes it."""

    name: str
    system: Mapping[str, Any]
    network: Mapping[str, list[Any]]
    work: Mapping[str, Any]
    aware: bool
    run_ns: float
    exposed_ns: float
    excuse: str | None
    files: Mapping[str, str]

    def write(self, folder: Path, examples: Path | None = None) -> dict[str, Any]:
        """Write its inputs into *folder*; our description, which names them.

        *examples* is a folder with ASTRA-sim's own files, to be named in their place.
        """
        (folder / "system.json").write_text(json.dumps(self.system, indent=1))
        lines = [f"{key}: {json.dumps(values)}\n" for key, values in self.network.items()]
        (folder / "network.yml").write_text("".join(lines).replace('"', ""))
        prefix = write_traces(folder, self.work, self.network["npus_count"])
        inputs = {"system": "system.json", "network": "network.yml", "work": prefix}
        paths = {key: str(folder / name) for key, name in inputs.items()}
        if examples is not None:
            paths |= {key: str(examples / name) for key, name in self.files.items()}
        workload = {"file": paths["work"]}
        if groups := groups_of(self.work, prod(self.network["npus_count"])):
            workload["groups"] = str(folder / "groups.json")
            Path(workload["groups"]).write_text(json.dumps(groups))
        return {
            "astra": {"release": 2, "system": paths["system"], "network": paths["network"]},
            "network": {"shared_links": self.aware},
            "workload": workload,
        }


def cases(path: Path = STORED) -> Iterator[Case]:
    """All runs that are stored."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    for each in stored["cases"]:
        parts = {key: each[key] for key in ("system", "network", "work")}
        network = stored["networks"][each["network"]]
        named = {key: stored["files"][key].get(name) for key, name in parts.items()}
        mode = "aware" if each["aware"] else "unaware"
        yield Case(
            name=f"{each['network']}, {each['system']}: {each['work']}, {mode}",
            system=stored["systems"][each["system"]],
            network=network,
            work=stored["works"][each["work"]],
            aware=each["aware"],
            run_ns=each.get("run_ns", 0.0),
            exposed_ns=each.get("exposed_ns", 0.0),
            excuse=each.get("excuse"),
            files={
                key: file.format(npus=prod(network["npus_count"]))
                for key, file in named.items()
                if file is not None
            },
        )
