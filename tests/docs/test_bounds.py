# SPDX-License-Identifier: Apache-2.0
"""Every table of the database is in docs/internals/bounds.md, with a bound."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_table_has_a_bound():
    schema = (ROOT / "src/store/schema.c").read_text()
    page = (ROOT / "docs/internals/bounds.md").read_text()
    tables = set(re.findall(r'CREATE TABLE (?:IF NOT EXISTS )?(\w+)\(', schema))
    section = page.split("## Tables of the database")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.M))
    assert set(rows) == tables
    assert all(bound.strip() for bound in rows.values())
