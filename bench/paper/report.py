#!/usr/bin/env python3
"""Draws what paper_figures prints, and writes its tables into docs/results/paper.md.

usage: report.py FIGURES.csv RESULTS_FOLDER. The page's text stands; what is between the markers
<!-- table NAME --> and <!-- end --> is replaced.
"""

import csv
import math
import pathlib
import re
import sys

import charts
import profiles

PRESETS = pathlib.Path(__file__).resolve().parents[2] / "chimera/plan/machine.cc"

THROUGHPUT = "sequences per second"
LIMIT_GB = 16
MODELS = {"bert48": "BERT-48", "gpt2": "GPT-2", "gpt2-32": "GPT-2, 32 layers"}
SERIES = [("paper", "#0b5394", False), ("simulated", "#b45f06", True)]
EQUATION_SERIES = [("paper's eq. 1", "#7f7f7f", False), ("our eq. 1", "#38761d", True)]

# How many times as fast as others the paper's text says that Chimera is on the largest machine of
# each model: figure and nodes, scheme.
CLAIMS = {
    ("14", "64"): {"PipeDream-2BW": 1.17, "DAPPLE": 1.19, "GPipe": 1.32, "PipeDream": 1.94,
                   "GEMS": 2.41},
    ("15", "2048"): {"PipeDream-2BW": 1.16, "DAPPLE": 1.38, "GPipe": 1.42, "PipeDream": 2.01,
                     "GEMS": 2.34},
}


def number(text):
    return None if text == "oom" else float(text)


def shown(text):
    return "OOM" if text == "oom" else f"{float(text):.4g}"


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %"


def pair(row):
    return number(row["paper"]), number(row["simulated"])


class Figures:
    def __init__(self, path):
        with open(path) as file:
            self.rows = list(csv.DictReader(file))
        for row in self.rows:
            row["model"] = MODELS[row["model"]]

    def of(self, figure, quantity="throughput"):
        return [row for row in self.rows
                if row["figure"] == figure and row["quantity"] == quantity]

    def with_equation(self):
        """Figure 13's rows, each with its row of equation 1."""
        return list(zip(self.of("13"), self.of("13", "equation")))


def grouped(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def bars(rows, group, label):
    return [(name, [(label(row), *pair(row)) for row in members])
            for name, members in grouped(rows, group).items()]


def draw(figures, folder):
    def save(name, title, unit, groups, limit=None, series=SERIES):
        (folder / f"paper_{name}.svg").write_text(charts.bars(title, unit, series, groups, limit))

    def words(first, last):
        return lambda row: " ".join(row["config"].split()[first:last])

    scheme = lambda row: row["scheme"]
    save("fig1_bubbles", "Figure 1: bubble ratio of GPT-2 on 2,048 nodes, equal stages", "%",
         bars(figures.of("1", "bubble_percent"), lambda _: "", scheme))
    save("fig1_memory", "Figure 1: peak memory of GPT-2 on 2,048 nodes, without recompute", "GB",
         bars(figures.of("1", "peak_gb"), lambda _: "", scheme), LIMIT_GB)
    for name, model in (("bert48", "BERT-48"), ("gpt2-32", "GPT-2, 32 layers")):
        rows = [row for row in figures.of("9", "peak_gb") if row["model"] == model]
        save(f"fig9_{name}", f"Figure 9: the fullest worker's memory, {model}, 32 nodes", "GB",
             bars(rows, words(0, 3), scheme), LIMIT_GB)
    layouts = grouped(figures.with_equation(), lambda rows: rows[0]["model"]).items()
    save("fig13", "Figure 13: Chimera's layouts, BERT-48 on 32 nodes and GPT-2 on 512", THROUGHPUT,
         [(model, [(words(0, 2)(row), *pair(row), *pair(equation)) for row, equation in members])
          for model, members in layouts], series=SERIES + EQUATION_SERIES)
    for figure, model in (("14", "BERT-48"), ("15", "GPT-2")):
        save(f"fig{figure}", f"Figure {figure}: {model}, weak scaling", THROUGHPUT,
             bars(figures.of(figure), lambda row: f"{row['nodes']} nodes", scheme))
    for figure, title in (("17", "BERT-48 on 32 nodes"), ("18", "GPT-2 on 512 nodes")):
        save(f"fig{figure}", f"Figure {figure}: {title}, by sequences of a mini-batch", THROUGHPUT,
             bars(figures.of(figure), scheme, lambda row: row["batch"]))
    save("fig19", "Figure 19: more pipes, GPT-2 of 32 layers on 64 nodes", THROUGHPUT,
         bars(figures.of("19"), words(0, 2), scheme))


def table(header, rows):
    cells = ["| " + " | ".join(line) + " |" for line in (header, *rows)]
    return "\n".join([cells[0], "|" + "---|" * len(header), *cells[1:]])


def results(row):
    """paper, simulated, error."""
    paper, ours = pair(row)
    same = "same" if row["paper"] == row["simulated"] else "differs"
    error = same if paper is None or ours is None else percent(ours / paper)
    return [shown(row["paper"]), shown(row["simulated"]), error]


def plain(rows, first):
    return table([*first, "paper", "simulated", "error", "use"],
                 [[*(row[key] for key in first), *results(row), row["use"]] for row in rows])


def fig13(figures):
    rows = []
    for row, equation in figures.with_equation():
        measured = float(row["paper"])
        others = [shown(row["simulated"]), percent(float(row["simulated"]) / measured), row["use"]]
        for side in ("paper", "simulated"):
            others += [shown(equation[side]), percent(float(equation[side]) / measured)]
        rows.append([row["model"], row["config"], shown(row["paper"]), *others])
    return table(["model", "config", "paper", "simulated", "error", "use", "paper's eq. 1", "error",
                  "our eq. 1", "error"], rows)


def speedups(figures):
    rows = []
    for (figure, nodes), claims in CLAIMS.items():
        largest = {row["scheme"]: pair(row) for row in figures.of(figure) if row["nodes"] == nodes}
        for scheme, claimed in claims.items():
            drawn, ours = (first / other
                           for first, other in zip(largest["Chimera"], largest[scheme]))
            rows.append([nodes, scheme, f"{claimed:.2f}", f"{drawn:.2f}", f"{ours:.2f}",
                         percent(ours / claimed), percent(ours / drawn)])
    return table(["nodes", "Chimera over", "paper's text", "its bars", "simulated",
                  "error to the text", "to the bars"], rows)


def summary(figures):
    """Of throughputs and bytes; bubbles and equation 1 are calculated, not measured."""
    rows = []
    measured = [row for row in figures.rows
                if row["quantity"] in ("throughput", "peak_gb", "least_gb")
                and (row["figure"], row["quantity"]) != ("1", "throughput")]  # they are figure 15's
    order = lambda key: (int(key[0]), key[1] != "throughput", key)
    groups = grouped(measured, lambda row: (row["figure"], row["quantity"], row["use"]))
    for key in sorted(groups, key=order):
        pairs = [pair(row) for row in groups[key] if None not in pair(row)]
        marks = [row["error_percent"] for row in groups[key] if None in pair(row)]
        errors = [ours / paper - 1 for paper, ours in pairs]
        rms = math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else 0
        worst = max(errors, key=abs, default=0)
        rows.append([*key] +
                    ([f"{sum(abs(e) <= 0.1 for e in errors)} of {len(errors)}",
                      f"{100 * rms:.1f} %", percent(1 + worst)] if errors else [""] * 3) +
                    [f"{marks.count('same')} of {len(marks)}" if marks else ""])
    return table(["figure", "quantity", "use", "within 10 %", "root mean square", "worst",
                  "OOM marks the same"], rows)


def constants():
    """What is fitted, from where it is used: the preset piz-daint and profiles.py."""
    preset = re.search(r'kPizDaint = R"\((.*?)\)"', PRESETS.read_text(), re.DOTALL).group(1)
    machine = dict(re.findall(r"^(\w+) = ([^\n]+)$", preset, re.MULTILINE))  # the last of a name
    rows = [
        ("time_scale", machine["time_scale"],
         "training takes so many times the published times of single layers"),
        ("GPT-2's efficiency", f"{profiles.GPT2_EFFICIENCY:g}",
         f"beside BERT's, operation for operation: attention over {profiles.GPT2_TOKENS} tokens"),
        ("all-reduce start", f"{1e3 * float(machine['all_reduce_start_s']):g} ms",
         "of each all-reduce, whatever its size and its ranks"),
        ("all-reduce bandwidth", f"{float(machine['bytes_per_s']) / 1e9:g} GB/s",
         "of each of log2(r) exchanges of a stage's whole gradient among r ranks"),
        ("reserved", f"{machine['reserved_gb']} GB", "of memory, for what is not ours"),
        ("BERT's activations", f"{profiles.ACTIVATIONS:g}",
         "times those of the published block: GELU of single operations keeps their results"),
        ("GPT-2's activations", f"{profiles.GPT2_ACTIVATIONS:g}",
         "times the hidden size, words a token and block"),
    ]
    return table(["constant", "value", "what it is"], rows)


def tables(figures):
    memory = ("scheme", "model", "config")
    batches = ("scheme", "batch", "config")
    return {
        "constants": constants(),
        "summary": summary(figures),
        "fig1": plain(figures.of("1", "bubble_percent") + figures.of("1", "peak_gb"),
                      ("scheme", "quantity", "config")),
        "fig9": plain(figures.of("9", "peak_gb"), memory),
        "fig9-least": plain(figures.of("9", "least_gb"), memory),
        "fig13": fig13(figures),
        "fig14": plain(figures.of("14"), ("scheme", "nodes", "config")),
        "fig15": plain(figures.of("15"), ("scheme", "nodes", "config")),
        "speedups": speedups(figures),
        "fig17": plain(figures.of("17"), batches),
        "fig18": plain(figures.of("18"), batches),
        "fig19": plain(figures.of("19"), ("scheme", "config")),
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
