"""Job tables: what becomes usage, what does not, and what is said about rows that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputUnusable
from metering.import_outcomes import ImportedEvent, ImportOutcome, ImportReject, ImportTally, RowSkipped
from metering.importers import events_from_table
from metering.mappings import MappingInvalid, TableMapping, mapping_document, mapping_for

TRACE = Path(__file__).parents[2] / "shared" / "traces" / "openb_pod_list_default.csv"

JOBS = b"""
source: lab
times: {format: epoch}
instance: {column: job}
start: {column: from}
end: {column: to}
cards: {column: gpus}
sku: {value: gpu.a100-80g}
account: {column: team}
"""
HEADER = "job,team,from,to,gpus\n"
T0 = 1_772_294_400  # 2026-03-01 00:00 in Shanghai, 2026-02-28 16:00 UTC


def jobs_mapping(**changes: object) -> TableMapping:
    return mapping_for(document={**mapping_document(JOBS, "jobs.yaml"), **changes})


def outcomes(table: str | bytes, mapping: TableMapping | None = None) -> list[ImportOutcome]:
    content = table.encode() if isinstance(table, str) else table
    return list(events_from_table(io.BytesIO(content), mapping or jobs_mapping(), "jobs.csv"))


def bodies(found: list[ImportOutcome]) -> list[dict[str, Any]]:
    assert all(isinstance(outcome, ImportedEvent) for outcome in found), found
    return [json.loads(outcome.body) for outcome in found if isinstance(outcome, ImportedEvent)]


def only_reject(table: str | bytes, mapping: TableMapping | None = None) -> ImportReject:
    (reject,) = (outcome for outcome in outcomes(table, mapping) if isinstance(outcome, ImportReject))
    return reject


def spans(found: list[ImportOutcome]) -> list[tuple[str, str, str]]:
    return [(body["subject"], body["type"].removeprefix("instance."), body["time"]) for body in bodies(found)]


# --- rows that ran --------------------------------------------------------------------------------------------------
def test_a_finished_row_starts_and_stops() -> None:
    assert bodies(outcomes(HEADER + f"j1,vision,{T0},{T0 + 60},8\n")) == [
        {
            "specversion": "1.0",
            "id": "j1/started/2026-02-28T16:00:00Z",
            "source": "lab",
            "type": "instance.started",
            "subject": "j1",
            "time": "2026-02-28T16:00:00Z",
            "data": {"account": "vision", "sku": "gpu.a100-80g", "cards": 8},
        },
        {
            "specversion": "1.0",
            "id": "j1/stopped/2026-02-28T16:01:00Z",
            "source": "lab",
            "type": "instance.stopped",
            "subject": "j1",
            "time": "2026-02-28T16:01:00Z",
            "data": {},
        },
    ]


def test_optional_facts_are_carried() -> None:
    mapping = jobs_mapping(plan={"value": "gang"}, project={"column": "team"}, region={"value": "cn-xiamen"})
    started, _ = bodies(outcomes(HEADER + f"j1,vision,{T0},{T0 + 60},8\n", mapping))
    assert started["data"] == {
        "account": "vision", "sku": "gpu.a100-80g", "cards": 8,
        "project": "vision", "plan": "gang", "region": "cn-xiamen",
    }  # fmt: skip


def test_a_row_without_an_end_is_still_running() -> None:
    tally = ImportTally()
    for outcome in outcomes(HEADER + f"j1,vision,{T0},,8\nj2,vision,{T0},{T0 + 1},1\n"):
        tally.count(outcome)
    assert (tally.rows, tally.running, tally.finished) == (2, 1, 1)


@pytest.mark.parametrize("blank", ["", "Unknown", "None", " "])
def test_a_row_without_a_start_never_ran(blank: str) -> None:
    assert outcomes(HEADER + f"j1,vision,{blank},{T0},8\n") == [RowSkipped(2, "never_ran")]


def test_a_row_without_cards_is_counted_and_costs_nothing() -> None:
    assert outcomes(HEADER + f"j1,vision,{T0},{T0 + 60},0\n") == [RowSkipped(2, "no_card")]


def test_a_row_within_one_second_is_counted_and_costs_nothing() -> None:
    assert outcomes(HEADER + f"j1,vision,{T0}.25,{T0}.75,1\n") == [RowSkipped(2, "zero_length")]


def test_the_same_table_gives_the_same_events() -> None:
    table = HEADER + f"j1,vision,{T0},{T0 + 60},8\nj2,vision,{T0},,1\n"
    assert outcomes(table) == outcomes(table)


def test_a_running_row_seen_again_after_its_end_adds_only_the_stop() -> None:
    before = {
        outcome.body for outcome in outcomes(HEADER + f"j1,vision,{T0},,8\n") if isinstance(outcome, ImportedEvent)
    }
    after = [
        outcome for outcome in outcomes(HEADER + f"j1,vision,{T0},{T0 + 9},8\n") if isinstance(outcome, ImportedEvent)
    ]
    assert [outcome.type for outcome in after if outcome.body not in before] == ["instance.stopped"]


def test_a_requeued_job_stays_two_sessions() -> None:
    found = bodies(outcomes(HEADER + f"j1,vision,{T0},{T0 + 60},8\nj1,vision,{T0 + 90},{T0 + 150},8\n"))
    assert len({body["id"] for body in found}) == 4


BERLIN = {"format": "iso", "time_zone": "Europe/Berlin"}


# --- times ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("times", "text", "instant"),
    [
        ({"format": "epoch"}, "1772294400", "2026-02-28T16:00:00Z"),
        ({"format": "epoch"}, "1772294400.999", "2026-02-28T16:00:00Z"),
        ({"format": "iso"}, "2026-03-01T00:00:00+08:00", "2026-02-28T16:00:00Z"),
        ({"format": "iso"}, "2026-02-28 16:00:00.5Z", "2026-02-28T16:00:00Z"),
        ({"format": "iso", "time_zone": "Asia/Shanghai"}, "2026-03-01T00:00:00", "2026-02-28T16:00:00Z"),
        ({"format": "iso", "time_zone": "Asia/Shanghai"}, "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"),
        ({"format": "relative", "origin": "2026-01-01T00:00:00+08:00"}, "0", "2025-12-31T16:00:00Z"),
        ({"format": "relative", "origin": "2026-01-01T00:00:00+08:00"}, "-0.5", "2025-12-31T15:59:59Z"),
    ],
)
def test_times_are_whole_seconds_in_utc(times: Mapping[str, str], text: str, instant: str) -> None:
    assert spans(outcomes(HEADER + f"j1,vision,{text},,1\n", jobs_mapping(times=times))) == [("j1", "started", instant)]


@pytest.mark.parametrize(
    ("times", "text", "reason"),
    [
        ({"format": "epoch"}, "yesterday", "not a number of seconds"),
        ({"format": "epoch"}, "1e9", "not a number of seconds"),
        ({"format": "epoch"}, "9" * 5000, "not a number of seconds"),
        ({"format": "epoch"}, "0", "1970-01-01T00:00:00Z is not between 2000 and 2100: another unit or origin?"),
        ({"format": "epoch"}, "1772294400000", "far outside 2000 to 2100: milliseconds instead of seconds?"),
        ({"format": "iso"}, "2026-03-01T00:00:00", "no offset from UTC, and no time zone is named"),
        ({"format": "iso"}, "2026-02-30T00:00:00Z", "no such time: day is out of range for month"),
        ({"format": "iso"}, "0001-01-01T00:00:00+08:00", "far outside 2000 to 2100"),
        ({"format": "iso"}, "03/01/2026", "not a time such as 2026-03-01T08:00:00"),
        (BERLIN, "2026-03-29T02:30:00", "the clocks of Europe/Berlin skipped this time"),
        (BERLIN, "2026-10-25T02:30:00", "the clocks of Europe/Berlin showed this time twice: write it with its offset"),
    ],
)
def test_a_time_that_is_not_certain_is_refused(times: Mapping[str, str], text: str, reason: str) -> None:
    reject = only_reject(HEADER + f"j1,vision,{text},,1\n", jobs_mapping(times=times))
    assert (reject.line, reject.column, reject.column_name, reject.reason) == (2, 3, "from", reason)


def test_a_row_that_ends_before_it_starts_is_refused() -> None:
    reject = only_reject(HEADER + f"j1,vision,{T0},{T0 - 1},1\n")
    assert str(reject) == "line 2, column 4 (to): ends before it starts at 2026-02-28T16:00:00Z: '1772294399'"


# --- rows that cannot be read ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (f"j1,vision,{T0},,eight", "line 2, column 5 (gpus): not a number of cards: 'eight'"),
        (f"j1,vision,{T0},,-8", "line 2, column 5 (gpus): not a number of cards: '-8'"),
        (f"j1,vision,{T0},,1000000", "line 2, column 5 (gpus): more than 100000 cards: '1000000'"),
        (f"j1,vision,{T0},,1.5", "line 2, column 5 (gpus): not a number of cards: '1.5'"),
        (f"j1,vision,{T0},,", "line 2, column 5 (gpus): no number of cards: ''"),
        (f"j1,,{T0},,8", "line 2, column 2 (team): no account: ''"),
        (f",vision,{T0},,8", "line 2, column 1 (job): no instance: ''"),
        (f"j\t1,vision,{T0},,8", "line 2, column 1 (job): signs in a name that cannot be printed: 'j\\t1'"),
        (f"j1,vision,{T0},", f"line 2, column 5 (gpus): 4 fields where the header has 5: 'j1,vision,{T0},'"),
        (f"j1,vision,{T0},,8,9", f"line 2, column 6: 6 fields where the header has 5: 'j1,vision,{T0},,8,9'"),
        (f"j1,vis\0ion,{T0},,8", "line 2, column 2 (team): a NUL byte: 'vis\\x00ion'"),
        (f"j1,vis\rion,{T0},,8", f"line 2: a carriage return inside the line: 'j1,vis\\rion,{T0},,8'"),
    ],
)
def test_a_bad_row_is_named_and_the_next_is_read(row: str, said: str) -> None:
    bad, good = outcomes(HEADER + row + f"\nj2,vision,{T0},,1\n")
    assert str(bad) == said
    assert spans([good]) == [("j2", "started", "2026-02-28T16:00:00Z")]


def test_a_row_in_another_encoding_is_refused() -> None:
    table = HEADER.encode() + "j1,视觉,1772294400,,8\n".encode("gbk") + f"j2,视觉,{T0},,8\n".encode()
    bad, good = outcomes(table)
    assert isinstance(bad, ImportReject)
    assert (bad.line, bad.column, bad.reason) == (2, 2, "not UTF-8 text")
    assert bodies([good])[0]["data"]["account"] == "视觉"


def test_an_over_long_line_is_refused_and_skipped() -> None:
    bad, good = outcomes(HEADER + "j1," + "x" * 3_000_000 + f",,,\nj2,vision,{T0},,1\n")
    assert isinstance(bad, ImportReject)
    assert (bad.line, bad.column, bad.reason) == (2, None, "line longer than 1048576 bytes")
    assert isinstance(good, ImportedEvent)
    assert good.line == 3


def test_lines_are_counted_through_quoted_newlines() -> None:
    table = HEADER + f'"j\n1",vision,{T0},,1\n\n"j""2",vision,{T0},,1\nj3,vision,{T0},,x\n'
    first, second, third = outcomes(table)
    assert isinstance(first, ImportReject)
    assert (first.line, first.value) == (2, "j\\n1")
    assert bodies([second])[0]["subject"] == 'j"2'
    assert isinstance(third, ImportReject)
    assert third.line == 6


def test_an_unclosed_quote_loses_its_own_row_only() -> None:
    bad, *good = outcomes(HEADER + f'j1,"vision,{T0},,1\n' + f"j2,vision,{T0},,1\n" * 200)
    assert isinstance(bad, ImportReject)
    assert bad.reason == "quotes that cannot be read: unexpected end of data"
    assert [outcome.line for outcome in good] == list(range(3, 203))


def test_two_stray_quotes_lose_their_own_rows_only() -> None:
    stray = f'j1,"vision,{T0},,1\n'
    found = outcomes(HEADER + stray + f"j2,vision,{T0},,1\n" + stray + f"j3,vision,{T0},,1\n")
    assert [type(outcome) for outcome in found] == [ImportReject, ImportedEvent, ImportReject, ImportedEvent]


def test_ten_thousand_rejects_leave_the_good_row() -> None:
    tally = ImportTally()
    for outcome in outcomes(HEADER + "j1,vision,soon,,1\n" * 10_000 + f"j2,vision,{T0},,1\n"):
        tally.count(outcome)
    assert (tally.rejected, tally.started, tally.rows) == (10_000, 1, 10_001)


@given(st.binary(max_size=400))
def test_any_bytes_below_the_header_are_rows_or_rejects(content: bytes) -> None:
    tally = ImportTally()
    for outcome in outcomes(HEADER.encode() + content):
        tally.count(outcome)
    assert tally.rows <= content.count(b"\n") + 1


# --- files that are no such table -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n" + HEADER.encode(), "the first line is blank where the header should be"),
        (gzip.compress(HEADER.encode()), "this is a gzip file: unpack it first"),
        (b"PK\x03\x04....", "this is a workbook or ZIP archive: save the sheet as CSV"),
        (HEADER.encode("utf-16"), "this is UTF-16 text: save it as UTF-8"),
        (HEADER.encode("utf-16-le"), "the header holds NUL bytes: binary, or not UTF-8 text"),
        (b"job,t\xe9am,from,to,gpus\n", "the header is not UTF-8 text (byte 6)"),
        (b"job,team\rj1,vision\r", "lines end in a carriage return alone: save the file with line feeds"),
        (b"x" * 2_000_000, "the first line is longer than 1048576 bytes: not a table"),
        (b"job,team,form,to,gpus\n", "no column 'from' in the header: job, team, form, to, gpus; did you mean 'form'?"),
        (b"a;b\n", "no column 'job', 'from', 'to', 'gpus', 'team' in the header: a;b"),
        (b"job,team,from,to,gpus,from\n", "column 'from' is in the header twice"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(InputUnusable) as refused:
        outcomes(content)
    assert str(refused.value) == f"jobs.csv: {said}"


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert len(outcomes(b"\xef\xbb\xbf" + HEADER.encode() + f"j1,vision,{T0},,1\r\n".encode())) == 1


def test_a_header_alone_is_a_table_without_rows() -> None:
    assert outcomes(HEADER) == []


# --- mappings -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"acount": {"value": "x"}}, "acount: Extra inputs are not permitted"),
        ({"cards": {}}, "cards: give either column or value"),
        ({"cards": {"column": "gpus", "value": 1}}, "cards: give either column or value"),
        ({"times": {"format": "relative"}}, "times: origin goes with format relative, and only with it"),
        ({"times": {"format": "relative", "origin": "2026-01-01"}}, "times: '2026-01-01' names no offset from UTC"),
        ({"times": {"format": "iso", "time_zone": "Mars/Base"}}, "times.time_zone: unknown time zone 'Mars/Base'"),
        ({"delimiter": "a"}, "delimiter: delimiter must be one sign such as , ; | or a tab"),
        ({"preset": "pbs"}, "unknown preset 'pbs': there are openb, slurm"),
    ],
)
def test_a_mapping_is_refused_with_its_fault(changes: dict[str, object], said: str) -> None:
    with pytest.raises(MappingInvalid) as refused:
        jobs_mapping(**changes)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"cards: !!python/object/apply:os.getcwd []\n", "line 1: cards: the tag"),
        (b"source: a\nsource: b\n", "line 2: source: the key stands twice"),
        (b"times: {format: relative, origin: 2026-01-01}\n", "line 1: times.origin: 2026-01-01 reads as a date"),
        (b"cards: {value: 1.0}\n", "line 1: cards.value: 1.0 reads as a float"),
        (b"[" * 50_000, "line 1: "),
        (b"- a\n", "not one list of names and columns"),
        (b"", "not one list of names and columns"),
        (b"\xff\xfe", "not UTF-8 text (byte 1)"),
        (b"#" * 70_000, "longer than 65536 bytes: not a mapping file"),
    ],
)
def test_a_mapping_file_is_plain_yaml(content: bytes, said: str) -> None:
    with pytest.raises(MappingInvalid) as refused:
        mapping_document(content, "m.yaml")
    assert str(refused.value).startswith(f"m.yaml: {said}")


def test_options_stand_in_where_rows_name_nothing() -> None:
    mapping = mapping_for("openb", options={"account": "acct-1", "sku": "gpu.t4", "origin": "2026-02-01T00:00:00Z"})
    (event,) = bodies(outcomes("name,scheduled_time,deletion_time,num_gpu\np,0,,2\n", mapping))
    assert event["time"] == "2026-02-01T00:00:00Z"
    assert event["data"] == {"account": "acct-1", "sku": "gpu.t4", "cards": 2}


def test_a_table_translates_and_its_default_covers_the_rest() -> None:
    mapping = jobs_mapping(sku={"column": "team", "table": {"vision": "gpu.h100-80g"}, "default": "gpu.rtx4090"})
    found = bodies(outcomes(HEADER + f"j1,vision,{T0},,1\nj2,speech,{T0},,1\n", mapping))
    assert [body["data"]["sku"] for body in found] == ["gpu.h100-80g", "gpu.rtx4090"]


def test_the_example_mapping_reads_a_table() -> None:
    path = Path(__file__).parents[1] / "examples" / "mapping.yaml"
    mapping = mapping_for(document=mapping_document(path.read_bytes(), path.name))
    table = "job;team;project;gpu_model;gpus;started;ended\n7;vision;ocr;4090;2;2026-03-01 00:00:00;\n"
    (started,) = bodies(outcomes(table, mapping))
    assert (started["subject"], started["time"]) == ("lab-7", "2026-02-28T16:00:00Z")
    assert started["data"] == {
        "account": "vision", "sku": "gpu.rtx4090", "cards": 2,
        "project": "ocr", "plan": "on_demand", "region": "cn-xiamen",
    }  # fmt: skip


# --- Slurm ----------------------------------------------------------------------------------------------------------
SACCT_HEADER = "JobID|User|Account|Partition|Start|End|AllocTRES|ReqTRES|State\n"
NIGHT = "2026-03-01T00:00:00|2026-03-01T01:00:00"
A100 = "billing=8,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=512G,node=1"


def slurm(**options: str) -> TableMapping:
    return mapping_for("slurm", options={"time_zone": "Asia/Shanghai", "source": "xm1", **options})


def test_slurm_jobs_become_usage_and_their_steps_do_not() -> None:
    table = SACCT_HEADER + (
        f"123|li|llm|gpu|{NIGHT}|{A100}|{A100}|COMPLETED\n"
        f"123.batch||llm||{NIGHT}|cpu=64,gres/gpu=8,mem=512G,node=1||COMPLETED\n"
        f"123.extern||llm||{NIGHT}|{A100}||COMPLETED\n"
        f"123.0||llm||{NIGHT}|{A100}||COMPLETED\n"
    )
    found = outcomes(table, slurm())
    assert found[2:] == [RowSkipped(line, "job_step") for line in (3, 4, 5)]
    started, stopped = bodies(found[:2])
    assert (started["subject"], started["time"]) == ("xm1-123", "2026-02-28T16:00:00Z")
    assert started["data"] == {"account": "llm", "sku": "gpu.a100-80g", "cards": 8}
    assert stopped["time"] == "2026-02-28T17:00:00Z"


@pytest.mark.parametrize("job", ["123", "123_4", "123+0"])
def test_slurm_names_of_jobs(job: str) -> None:
    started, _ = bodies(outcomes(SACCT_HEADER + f"{job}|li|llm|gpu|{NIGHT}|{A100}||COMPLETED\n", slurm()))
    assert started["subject"] == f"xm1-{job}"


@pytest.mark.parametrize("step", ["123_4.batch", "123+0.extern", "123.0", "123+1.0"])
def test_slurm_names_of_steps(step: str) -> None:
    assert outcomes(SACCT_HEADER + f"{step}|||gpu|{NIGHT}|{A100}||COMPLETED\n", slurm()) == [RowSkipped(2, "job_step")]


@pytest.mark.parametrize(
    "row",
    [
        f"124|li|llm|gpu|Unknown|Unknown||{A100}|PENDING",
        f"125_[1-10%2]|li|llm|gpu|Unknown|Unknown||{A100}|PENDING",
        f"126|li|llm|gpu|None|2026-03-01T01:00:00||{A100}|CANCELLED by 1001",
    ],
)
def test_slurm_jobs_that_never_ran(row: str) -> None:
    assert outcomes(SACCT_HEADER + row + "\n", slurm()) == [RowSkipped(2, "never_ran")]


def test_slurm_job_requeued_and_still_running() -> None:
    table = SACCT_HEADER + (
        f"123|li|llm|gpu|{NIGHT}|{A100}||NODE_FAIL\n"
        f"123|li|llm|gpu|2026-03-01T01:02:00|Unknown|{A100}||RUNNING\n"
    )  # fmt: skip
    assert spans(outcomes(table, slurm())) == [
        ("xm1-123", "started", "2026-02-28T16:00:00Z"),
        ("xm1-123", "stopped", "2026-02-28T17:00:00Z"),
        ("xm1-123", "started", "2026-02-28T17:02:00Z"),
    ]


@pytest.mark.parametrize(
    ("allocated", "requested", "sku", "cards"),
    [
        ("gres/gpu=8", "gres/gpu:h100=8", "gpu.h100-80g", 8),
        ("", "gres/gpu:rtx4090=2", "gpu.rtx4090", 2),
        ("gres/gpu=4,node=1", "", "gpu.other", 4),
        ("gres/gpu:L20=4", "", "gpu.other", 4),
        ("gres/gpu:a100=2,gres/gpumem=80G,gres/gpuutil=97", "", "gpu.a100-80g", 2),
    ],
)
def test_slurm_cards_and_sku(allocated: str, requested: str, sku: str, cards: int) -> None:
    table = SACCT_HEADER + f"123|li|llm|gpu|{NIGHT}|{allocated}|{requested}|COMPLETED\n"
    started, _ = bodies(outcomes(table, slurm(sku="gpu.other")))
    assert (started["data"]["sku"], started["data"]["cards"]) == (sku, cards)


@pytest.mark.parametrize(
    ("allocated", "reason"),
    [
        ("gres/gpu=8", "no card type is named, and there is no default SKU"),
        ("gres/gpu:l20=8", "card type 'l20' has no SKU in the mapping, and there is no default SKU"),
        ("gres/gpu:a100=4,gres/gpu:h100=4", "several card types in one job, where one instance has one SKU"),
        ("gres/gpu:a100=4,gres/gpu=8", "8 cards in all, but 4 of type a100"),
        ("gres/gpu=many", "not a number of cards"),
    ],
)
def test_slurm_cards_that_have_no_certain_price(allocated: str, reason: str) -> None:
    reject = only_reject(SACCT_HEADER + f"123|li|llm|gpu|{NIGHT}|{allocated}||COMPLETED\n", slurm())
    assert (reject.line, reject.column_name, reject.reason) == (2, "AllocTRES", reason)


def test_slurm_jobs_without_a_card() -> None:
    table = SACCT_HEADER + f"123|li|llm|cpu|{NIGHT}|cpu=4,mem=8G,node=1|cpu=4|COMPLETED\n"
    assert outcomes(table, slurm()) == [RowSkipped(2, "no_card")]


def test_slurm_never_quotes() -> None:
    table = SACCT_HEADER.replace("Partition", "JobName") + f'123|li|llm|24" screen|{NIGHT}|{A100}||COMPLETED\n' * 2
    assert len(outcomes(table, slurm())) == 4


def test_slurm_needs_the_zone_of_the_cluster() -> None:
    with pytest.raises(MappingInvalid, match="name the cluster's time zone"):
        mapping_for("slurm")


def test_a_mapping_file_over_a_preset() -> None:
    content = b"""
preset: slurm
times: {format: iso, time_zone: Asia/Shanghai}
sku: {column: AllocTRES, tres: true, table: {l20: gpu.l20}}
plan: {value: gang}
"""
    mapping = mapping_for(document=mapping_document(content, "m.yaml"))
    started, _ = bodies(outcomes(SACCT_HEADER + f"9|li|llm|gpu|{NIGHT}|gres/gpu:l20=1||COMPLETED\n", mapping))
    assert started["data"] == {"account": "llm", "sku": "gpu.l20", "cards": 1, "plan": "gang"}


# --- a real trace ---------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not TRACE.exists(), reason="the public trace is not beside the project (../shared/traces)")
def test_trace_meets_its_control_totals() -> None:
    tally, opened, months = ImportTally(), dict[str, tuple[datetime, int]](), Counter[str]()
    with TRACE.open("rb") as stream:
        for outcome in events_from_table(stream, mapping_for("openb"), TRACE.name):
            tally.count(outcome)
            if isinstance(outcome, ImportedEvent):
                _note(json.loads(outcome.body), opened, months)
    assert (tally.rows, tally.started, tally.finished, tally.rejected) == (8_152, 6_203, 6_203, 0)
    assert tally.skipped == {"never_ran": 897, "no_card": 1_052}
    assert months.total() == 214_603_958
    assert months == {
        "2026-01": 6_049_758, "2026-02": 17_249_838, "2026-03": 30_060_613,
        "2026-04": 53_595_793, "2026-05": 107_647_956,
    }  # fmt: skip


def _note(event: dict[str, Any], opened: dict[str, tuple[datetime, int]], months: Counter[str]) -> None:
    """Adds the card-seconds of a stopped instance to the Shanghai months they lie in."""
    at = datetime.fromisoformat(event["time"]).astimezone(ZoneInfo("Asia/Shanghai"))
    if event["type"] == "instance.started":
        opened[event["subject"]] = at, event["data"]["cards"]
        return
    start, cards = opened.pop(event["subject"])
    while start < at:
        following = datetime(start.year + start.month // 12, start.month % 12 + 1, 1, tzinfo=start.tzinfo)
        end = min(following, at)
        months[f"{start:%Y-%m}"] += cards * int((end - start).total_seconds())
        start = end
