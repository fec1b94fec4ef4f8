#!/usr/bin/env python3
"""Draws what paper_figures prints, and writes its tables into docs/results/paper.md.

usage: report.py FIGURES.csv RESULTS_FOLDER. The page's text stands; what is between the markers
<!-- table NAME --> and <!-- end --> is replaced.
"""

import csv
import pathlib
import re
import sys

import charts

THROUGHPUT = "sequences per second"
LIMIT_GB = 16


def number(text):
    return None if text == "oom" else float(text)


def shown(text):
    return "OOM" if text == "oom" else f"{float(text):.4g}"


class Figures:
    def __init__(self, path):
        with open(path) as file:
            self.rows = list(csv.DictReader(file))

    def of(self, figure, quantity="throughput"):
        return [row for row in self.rows
                if row["figure"] == figure and row["quantity"] == quantity]


def grouped(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def pair(row):
    return number(row["paper"]), number(row["simulated"])


def bars(rows, group, label):
    return [(name, [(label(row), *pair(row)) for row in members])
            for name, members in grouped(rows, group).items()]


def curves(rows):
    return [(name, [(float(row["batch"]), *pair(row)) for row in members])
            for name, members in grouped(rows, lambda row: row["scheme"]).items()]


def pipes(row):
    found = re.search(r"(\d+) pipes", row["config"])
    return found.group(1) if found else "1"


def fix_pipes(rows):
    """Of each D the first row is 1F1B of one pipe, the second has two."""
    for members in grouped(rows, lambda row: row["config"].split()[0]).values():
        for index, row in enumerate(members):
            row["pipes"] = "2" if index == 1 else pipes(row)
    return rows


def draw(figures, folder):
    nodes = lambda row: f"{row['nodes']} nodes"
    scheme = lambda row: row["scheme"]
    config = lambda row: " ".join(row["config"].split()[:3])
    save = lambda name, svg: (folder / name).write_text(svg)
    save("paper_fig1.svg", charts.pairs(
        "Figure 1: GPT-2 on 2,048 nodes: bubbles (%) and peak memory (GB) without recompute",
        "% or GB", [("bubble ratio, %", bars(figures.of("1", "bubble_percent"),
                                             lambda _: "", scheme)[0][1]),
                    ("peak memory, GB", bars(figures.of("1", "peak_gb"),
                                             lambda _: "", scheme)[0][1])]))
    for model, title in (("bert48", "BERT-48"), ("gpt2-32", "GPT-2, 32 layers")):
        rows = [row for row in figures.of("9", "peak_gb") if row["model"] == model]
        save(f"paper_fig9_{model}.svg", charts.pairs(
            f"Figure 9: the fullest worker's memory, {title}, 32 nodes", "GB",
            bars(rows, config, scheme), LIMIT_GB))
    save("paper_fig13.svg", charts.pairs(
        "Figure 13: Chimera's layouts, BERT-48 on 32 nodes and GPT-2 on 512", THROUGHPUT,
        bars(figures.of("13"), lambda row: row["model"],
             lambda row: " ".join(row["config"].split()[:2]))))
    for figure, title in (("14", "BERT-48"), ("15", "GPT-2")):
        save(f"paper_fig{figure}.svg", charts.pairs(
            f"Figure {figure}: {title}, weak scaling", THROUGHPUT,
            bars(figures.of(figure), nodes, scheme)))
    for figure, title in (("17", "BERT-48 on 32 nodes"), ("18", "GPT-2 on 512 nodes")):
        save(f"paper_fig{figure}.svg", charts.lines(
            f"Figure {figure}: {title}, larger mini-batches", "mini-batch, sequences", THROUGHPUT,
            curves(figures.of(figure))))
    save("paper_fig19.svg", charts.pairs(
        "Figure 19: more pipes, GPT-2 of 32 layers on 64 nodes", THROUGHPUT,
        bars(fix_pipes(figures.of("19")), lambda row: row["config"].split()[0],
             lambda row: row["pipes"] + " pipes")))


def table(rows, first=("scheme", "config")):
    lines = ["| " + " | ".join(first) + " | paper | simulated | error | |",
             "|" + "---|" * (len(first) + 4)]
    for row in rows:
        error = row["error_percent"]
        error = f"{float(error):+.1f} %" if re.fullmatch(r"-?[\d.]+(e-?\d+)?", error) else error
        lines.append("| " + " | ".join(row[key] for key in first) +
                     f" | {shown(row['paper'])} | {shown(row['simulated'])} | {error} | "
                     f"{row['use']} |")
    return "\n".join(lines)


def speedups(figures):
    lines = ["| Chimera over | paper | simulated | error |", "|---|---|---|---|"]
    largest = [row for row in figures.of("15") if row["nodes"] == "2048"]
    first = largest[0]
    for row in largest[1:]:
        paper, ours = (first_v / v for first_v, v in zip(pair(first), pair(row)))
        error = 100 * (ours / paper - 1)
        lines.append(f"| {row['scheme']} | {paper:.2f} | {ours:.2f} | {error:+.1f} % |")
    return "\n".join(lines)


def tables(figures):
    with_nodes = ("scheme", "nodes", "config")
    memory = figures.of("9", "peak_gb")
    least = figures.of("9", "least_gb")
    return {
        "fig1": table(figures.of("1", "bubble_percent") + figures.of("1", "peak_gb"),
                      ("scheme", "quantity", "config")),
        "fig9": table(memory, ("scheme", "model", "config")),
        "fig9-least": table([row for row in least if row["scheme"] == "Chimera"],
                            ("scheme", "model", "config")),
        "fig13": table(figures.of("13"), ("model", "config")),
        "fig14": table(figures.of("14"), with_nodes),
        "fig15": table(figures.of("15"), with_nodes),
        "speedups": speedups(figures),
        "fig17": table(figures.of("17"), ("scheme", "batch", "config")),
        "fig18": table(figures.of("18"), ("scheme", "batch", "config")),
        "fig19": table(fix_pipes(figures.of("19")), ("pipes", "config")),
    }


def main():
    figures = Figures(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    draw(figures, folder)
    page = folder / "paper.md"
    text = page.read_text()
    for name, lines in tables(figures).items():
        marked = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marked.search(text):
            sys.exit(f"report: error: {page} has no place for the table '{name}'; expected a line "
                     f"'<!-- table {name} -->' and one '<!-- end -->' after it")
        text = marked.sub(lambda found: found.group(1) + lines + "\n" + found.group(2), text)
    page.write_text(text)


if __name__ == "__main__":
    main()
