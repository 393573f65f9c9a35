# SPDX-License-Identifier: Apache-2.0
"""Converts samples to one table, the bars with pass or miss, JSON and a plot."""

import html
import json
import math
import statistics

# Colours by contender: ours, the limit and the host, the others.
COLOURS = {"cay": "#0a7d6c", "limit": "#8a8a8a", "host": "#b8b8b8"}
RIVAL_COLOUR = "#c8803c"


def quantile(values, q):
    ordered = sorted(values)
    return ordered[round(q * (len(ordered) - 1))]


def row(contender):
    found = {"key": contender.key, "label": contender.label, "n": len(contender.us),
             "failures": contender.failures, "from_pool": contender.from_pool,
             "note": contender.note}
    if contender.us:
        found.update(p50_us=statistics.median(contender.us), p99_us=quantile(contender.us, 0.99),
                     min_us=min(contender.us), us=[round(v, 1) for v in contender.us])
    return found


def p50s(result):
    return {r["key"]: r["p50_us"] for r in result.get("latency", []) if "p50_us" in r}


def bar(text, value, bound, at_most=True, unit="x"):
    if value is None:
        return {"text": text, "value": None, "bound": bound, "pass": None, "unit": unit,
                "at_most": at_most}
    good = value <= bound if at_most else value >= bound
    return {"text": text, "value": round(value, 3), "bound": bound, "pass": good, "unit": unit,
            "at_most": at_most}


def latency_bars(result):
    p50 = p50s(result)

    def ratio(top, bottom):
        return p50[top] / p50[bottom] if top in p50 and bottom in p50 else None

    return [
        bar("cold cycle / limit cycle", ratio("cay_cold", "limit_cycle"), 1.5),
        bar("bwrap / cold cycle", ratio("bwrap", "cay_cold"), 1.0, at_most=False),
        bar("crun / cold cycle", ratio("crun", "cay_cold"), 3.0, at_most=False),
        bar("docker / cold cycle", ratio("docker", "cay_cold"), 80.0, at_most=False),
        bar("pool create+echo / echo on the host (same pace)", ratio("cay_pool", "host_echo_paced"),
            1.5),
        bar("  the same / echo on the host, unpaced (stricter)", ratio("cay_pool", "host_echo"), 1.5),
        bar("cold create / limit create", ratio("cay_create_cold", "limit_create"), 1.5),
        bar("pool create / cold create", ratio("cay_create_pool", "cay_create_cold"), 0.3),
    ]


def scale_bars(result):
    found = []
    if "throughput" in result:
        runs = result["throughput"]
        found += [
            bar("cycles per second, cold", runs["cold"]["per_second"], 300, False, "/s"),
            bar("  the same / the bare limit's, as many at once",
                runs["cold"]["per_second"] / runs["limit"]["per_second"], 0.8, False),
            bar("cycles per second, pool", runs["pool"]["per_second"], 300, False, "/s"),
            bar("failed requests", sum(r["failures"] for r in runs.values()), 0, True, ""),
        ]
    if "density" in result:
        d = result["density"]
        each = max(d["used_kb_each"], d["available_kb_each"], d["parts_kb_each"])
        found += [
            bar(f"memory each, {d['alive']} alive", each / 1024, 1.5, True, " MiB"),
            bar(f"create with {d['alive']} alive / with 10",
                d["create_many_p50_us"] / d["create_few_p50_us"], 2.0),
            bar(f"daemon (cayd) with {d['alive']} alive", d["rss_kb"].get("cayd", 0) / 1024, 32,
                True, " MiB"),
        ]
    if "leak" in result:
        lost = result["leak"]
        found += [
            bar(f"things left after {lost['cycles']} cycles", len(lost["live"]), 0, True, ""),
            bar("failed requests in them", lost["failures"], 0, True, ""),
            bar("things left on the host after 'cay down'", len(lost.get("after_down", [])), 0,
                True, ""),
        ]
    return found


def bars(result):
    return (latency_bars(result) if "latency" in result else []) + scale_bars(result)


def write(result, directory):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
    if "latency" in result:
        (directory / "bench.svg").write_text(plot(result))
    result["written"] = str(directory)


def show_latency(result):
    p50 = p50s(result)
    print(f"{'':44}{'n':>6}{'p50 ms':>9}{'p99 ms':>9}{'x limit':>9}{'x cay cold':>11}{'x cay pool':>11}")
    for r in result["latency"]:
        if "p50_us" not in r:
            print(f"{r['label']:44}  not measured: {(r['note'] or '')[:60]}")
            continue
        ratios = []
        for other in ("limit_cycle", "cay_cold", "cay_pool"):
            ratios.append(f"{r['p50_us'] / p50[other]:.2f}" if other in p50 else "-")
        extra = f"  {r['failures']} failed: {r['note']}" if r["failures"] else ""
        if r["key"] in ("cay_pool", "cay_create_pool"):
            extra += f"  ({r['from_pool']} from the pool, warm-up included)"
        print(f"{r['label']:44}{r['n']:>6}{r['p50_us'] / 1e3:>9.2f}{r['p99_us'] / 1e3:>9.2f}"
              f"{ratios[0]:>9}{ratios[1]:>11}{ratios[2]:>11}{extra}")
    for label, why in result["absent"].items():
        print(f"{label:44}  not measured: {why.splitlines()[-1][:80] if why else ''}")


def show_scale(result):
    for name, run in result.get("throughput", {}).items():
        print(f"throughput, {name}: {run['per_second']:.0f} cycles/s with {run['clients']} clients, "
              f"p50 {run.get('p50_us', 0) / 1e3:.1f} ms, p99 {run.get('p99_us', 0) / 1e3:.1f} ms, "
              f"{run['failures']} failed of {run['n']} ({run['from_pool']} from the pool)"
              + (f": {run['error']}" if run["error"] else ""))
    if "density" in result:
        d = result["density"]
        print(f"density, {d['alive']} alive: {d['used_kb_each']:.0f} kB each; by parts "
              f"{d['parts_kb_each']:.0f} (slab {d['Slab_kb_each']:.0f}, anonymous {d['AnonPages_kb_each']:.0f}, kernel stacks "
              f"{d['KernelStack_kb_each']:.0f}, page tables {d['PageTables_kb_each']:.0f}); by "
              f"MemAvailable {d['available_kb_each']:.0f} kB; cold create {d['create_few_p50_us'] / 1e3:.2f}"
              f" -> {d['create_many_p50_us'] / 1e3:.2f} ms; RSS "
              + ", ".join(f"{n} {kb / 1024:.1f} MiB" for n, kb in d["rss_kb"].items()))
    if "leak" in result:
        lost = result["leak"]
        print(f"leak: {lost['cycles']} cycles, {lost['failures']} failed {lost['error']}; counted "
              + ", ".join(f"{n} {c}" for c, n in lost["counted"].items()))
        print("      RSS in MiB, before and after: " + ", ".join(
            f"{n} {lost['rss_before_kb'].get(n, 0) / 1024:.1f} -> {kb / 1024:.1f}"
            for n, kb in lost["rss_after_kb"].items())
            + f"; after 'cay down' compared: {lost.get('compared', '-')}")
        for line in (lost["live"] + lost.get("after_down", []))[:20]:
            print(f"      left: {line}")


def show(result, *more):
    f = result["facts"]
    print(f"\ncay {f['commit'] or ''} on Linux {f['kernel']}, {f['cpus']} CPUs, {f['date']}, "
          f"load before the run {f['load_before']:.1f}\n")
    if "latency" in result:
        show_latency(result)
        print()
    for section in more:
        section(result)
    show_scale(result)
    print()
    for b in result["bars"]:
        word = {True: "pass", False: "MISS", None: "not measured"}[b["pass"]]
        value = "" if b["value"] is None else f"{b['value']:g}{b['unit']}"
        sign = "<=" if b["at_most"] else ">="
        print(f"  {b['text']:54}{value:>12}  {sign} {b['bound']:g}{b['unit']:5} {word}")
    print(f"\n{result['written']}/bench.json" + (", bench.svg" if "latency" in result else ""))


def colour(key):
    return COLOURS.get(key.split("_")[0], RIVAL_COLOUR)


def plot(result):
    """Horizontal bars of the medians on a logarithmic axis, a tick at each p99."""
    rows = [r for r in result["latency"] if "p50_us" in r]
    left, width, line, top = 330, 620, 26, 56
    low = math.floor(math.log10(min(r["p50_us"] for r in rows) / 1e3))
    high = math.ceil(math.log10(max(r["p99_us"] for r in rows) / 1e3))
    bottom = top + line * len(rows)

    def x(ms):
        return left + width * (math.log10(ms) - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" '
           f'height="{bottom + 40}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="16" y="24" font-size="16">Milliseconds, p50 (bar) and p99 (tick), '
           'logarithmic; one interleaved run</text>']
    for power in range(low, high + 1):
        at = x(10 ** power)
        out.append(f'<line x1="{at:.1f}" y1="{top - 8}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>'
                   f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">'
                   f'{10 ** power:g}</text>')
    for number, r in enumerate(rows):
        y = top + line * number
        p50, p99 = r["p50_us"] / 1e3, r["p99_us"] / 1e3
        out.append(
            f'<text x="{left - 10}" y="{y + 14}" text-anchor="end">{html.escape(r["label"])}</text>'
            f'<rect x="{left}" y="{y + 2}" width="{x(p50) - left:.1f}" height="{line - 10}" '
            f'fill="{colour(r["key"])}"/>'
            f'<line x1="{x(p99):.1f}" y1="{y + 1}" x2="{x(p99):.1f}" y2="{y + line - 7}" '
            f'stroke="#333" stroke-width="2"/>'
            f'<text x="{x(p99) + 6:.1f}" y="{y + 14}" fill="#333">{p50:.2f}</text>')
    return "\n".join(out) + "\n</svg>\n"
