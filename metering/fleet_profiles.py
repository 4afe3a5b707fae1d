"""Who rents what in the generated fleet, and what breaks: plain data for `metering.fleet`.

Companies are invented. Shares and weights are relative; durations are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Habit = Literal["training", "serving", "office", "batch", "rental"]
Weights = dict[str, float]

FAILURES_PER_CARD_DAY = 4.7e-4
MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(frozen=True, eq=False)
class Tenant:
    """One customer: where it rents, how big it is, which cards it takes and how it uses them."""

    account: str
    region: str
    share: int
    projects: tuple[str, ...]
    skus: Weights
    habits: dict[Habit, float]
    lends: bool = False


H100, A100, C500, RTX = "gpu.h100-80g", "gpu.a100-80g", "gpu.c500-64g", "gpu.rtx4090"

TENANTS = (
    Tenant("hailan-llm", "cn-north-b", 14, ("pretrain", "align", "eval"), {H100: 8, A100: 2},
           {"training": 7, "serving": 2, "office": 1}, lends=True),
    Tenant("tianxing-drive", "cn-north-b", 13, ("perception", "simulation"), {H100: 3, A100: 5, C500: 2},
           {"training": 6, "batch": 3, "office": 2}, lends=True),
    Tenant("chengyu-search", "cn-east-a", 12, ("ranking", "chat"), {H100: 2, A100: 4, RTX: 4},
           {"serving": 7, "training": 2, "batch": 1}, lends=True),
    Tenant("yunfan-render", "cn-southwest", 14, ("film", "advertising", "archviz"), {RTX: 1},
           {"batch": 6, "rental": 3, "serving": 1}),
    Tenant("xinghe-games", "cn-east-a", 10, ("npc-voice", "art-tools"), {RTX: 7, A100: 3},
           {"serving": 5, "office": 3, "batch": 2}),
    Tenant("jinsha-finance", "cn-xiamen", 9, ("risk", "documents"), {C500: 1},
           {"serving": 7, "training": 2, "office": 1}),
    Tenant("minghe-biotech", "cn-xiamen", 9, ("folding", "docking"), {A100: 8, C500: 2},
           {"training": 3, "batch": 5, "office": 2}),
    Tenant("qingmu-robotics", "cn-east-a", 7, ("grasping", "locomotion"), {A100: 5, RTX: 5},
           {"training": 4, "office": 4, "batch": 2}),
    Tenant("lotus-university", "cn-xiamen", 7, ("vision-lab", "nlp-lab", "course-7003"), {RTX: 1},
           {"office": 7, "batch": 3}),
    Tenant("nanshan-hospital", "cn-xiamen", 3, ("radiology",), {A100: 1}, {"rental": 5, "office": 3}),
    Tenant("baita-studio", "cn-southwest", 2, ("shorts",), {RTX: 1}, {"rental": 1, "office": 1}),
)  # fmt: skip

CARDS: dict[Habit, dict[int, float]] = {
    "training": {8: 55, 16: 30, 32: 12, 64: 3},
    "serving": {1: 20, 2: 25, 4: 25, 8: 30},
    "office": {1: 75, 2: 25},
    "batch": {1: 25, 2: 25, 4: 30, 8: 20},
    "rental": {1: 50, 2: 30, 4: 20},
}
PLANS: dict[Habit, Weights] = {
    "training": {"gang": 5, "on_demand": 4, "hourly": 1},
    "serving": {"on_demand": 6, "pack_month": 4},
    "office": {"on_demand": 7, "hourly": 3},
    "batch": {"preemptible": 4, "hourly": 3, "on_demand": 3},
    "rental": {"pack_day": 1},
}


@dataclass(frozen=True)
class Cause:
    """Why cards fail: the GPU's XID where it names one, how many cards it takes (0: all), how long a repair takes."""

    weight: int
    cause: str
    repair: tuple[int, int]
    xids: tuple[int, ...] = ()
    cards: int = 1


CAUSES = (
    Cause(17, "card has fallen off the bus", (25 * MINUTE, 5 * HOUR), (79,)),
    Cause(19, "uncorrectable memory error", (20 * MINUTE, 8 * HOUR), (48, 94, 95)),
    Cause(6, "row remap failure", (HOUR, 9 * HOUR), (64,)),
    Cause(6, "rows remapped, reset pending", (2 * MINUTE, 15 * MINUTE), (63,)),
    Cause(13, "NVLink error", (40 * MINUTE, 6 * HOUR), (74,), cards=2),
    Cause(13, "GSP does not answer", (15 * MINUTE, 2 * HOUR), (119, 120)),
    Cause(14, "network link down", (5 * MINUTE, 45 * MINUTE), cards=0),
    Cause(12, "host restarted", (12 * MINUTE, 3 * HOUR), cards=0),
)
USER_FAULTS = (
    Cause(1, "illegal memory access in the job", (4 * MINUTE, 20 * MINUTE), (31,)),
    Cause(1, "graphics engine exception in the job", (3 * MINUTE, 12 * MINUTE), (13,)),
    Cause(1, "job was killed on the card", (2 * MINUTE, 8 * MINUTE), (43,)),
)
