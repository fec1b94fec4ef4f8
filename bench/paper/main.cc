// Prints the paper's figures beside what the simulator says of them, as CSV.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "bench/paper/figures.h"
#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/text.h"

namespace {

using chimera::cat;
using chimera::FigurePoint;

// "D4 W8 B8 N8 R".
std::string layout_text(const chimera::PaperRun& run) {
  return cat("D", run.stages, " W", run.width, " B", run.sequences, " N", run.micros,
             run.recompute ? " R" : "");
}

std::string error_text(const std::string& paper, const std::string& ours) {
  if (paper == "oom" || ours == "oom") return paper == ours ? "same" : "differs";
  const double measured = std::strtod(paper.c_str(), nullptr);
  if (measured == 0) return "";
  return cat(std::round(1000 * (std::strtod(ours.c_str(), nullptr) / measured - 1)) / 10);
}

void print(const FigurePoint& point, const std::string& ours) {
  std::cout << point.figure << ',' << point.scheme << ',' << point.nodes << ',' << point.paper
            << ',' << ours << ',' << error_text(point.paper, ours) << ',' << point.use << ','
            << point.quantity << ',' << point.model << ',' << point.run.batch() << ','
            << layout_text(point.run) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = "bench/paper", machine = "piz-daint";
  std::vector<std::string> figures;
  CLI::App app("The figures of the Chimera paper, measured and simulated, as CSV");
  app.add_option("--folder", folder, "Has figures.csv and the profiles of the models");
  app.add_option("--machine", machine, "A machine file, or a preset");
  app.add_option("--figures", figures, "These alone")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  try {
    const auto models = chimera::load_models(folder);
    const auto on = chimera::load_machine(machine);
    std::cout << "figure,scheme,nodes,paper,simulated,error_percent,use,quantity,model,batch,"
                 "config\n";
    for (const FigurePoint& point :
         chimera::parse_figures(chimera::read_file(folder + "/figures.csv"))) {
      const bool wanted = std::find(figures.begin(), figures.end(), point.figure) != figures.end();
      if (figures.empty() || wanted) print(point, chimera::simulated(point, models, on));
    }
  } catch (const chimera::Error& error) {
    std::cerr << "paper_figures: error: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
