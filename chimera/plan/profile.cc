#include "chimera/plan/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "chimera/base/error.h"
#include "chimera/base/file.h"
#include "chimera/base/number.h"
#include "chimera/base/text.h"
#include "chimera/plan/toml_table.h"

namespace chimera {
namespace {

constexpr std::string_view kProfileFormat = "chimera-profile-1";

constexpr int kMostSequences = 1 << 30;
constexpr std::int64_t kMostParameters = std::int64_t{1} << 50;

// Each number of a point, by its name in the file.
struct PointField {
  std::string_view name;
  double LayerPoint::*member;
  bool optional = false;  // 0 where it is not there
};
constexpr auto kPointFields = std::to_array<PointField>({
    {"forward_s", &LayerPoint::forward_s},
    {"backward_s", &LayerPoint::backward_s},
    {"backward_input_s", &LayerPoint::backward_input_s},
    {"recompute_s", &LayerPoint::recompute_s},
    {"kept_forward_s", &LayerPoint::kept_forward_s, true},
    {"stash_bytes", &LayerPoint::stash_bytes},
    {"forward_work_bytes", &LayerPoint::forward_work_bytes},
    {"kept_forward_work_bytes", &LayerPoint::kept_forward_work_bytes},
    {"recompute_work_bytes", &LayerPoint::recompute_work_bytes},
    {"backward_work_bytes", &LayerPoint::backward_work_bytes},
    {"end_backward_work_bytes", &LayerPoint::end_backward_work_bytes, true},
    {"output_bytes", &LayerPoint::output_bytes},
});

struct KindField {
  std::string_view name;
  double LayerKind::*member;
};
constexpr auto kKindFields = std::to_array<KindField>({
    {"weight_bytes", &LayerKind::weight_bytes},
    {"gradient_bytes", &LayerKind::gradient_bytes},
    {"optimizer_bytes", &LayerKind::optimizer_bytes},
    {"step_s", &LayerKind::step_s},
    {"step_bytes", &LayerKind::step_bytes},
});

LayerPoint read_point(TomlTable table) {
  LayerPoint point;
  point.sequences = static_cast<int>(table.integer("sequences", 1, kMostSequences));
  for (const PointField& field : kPointFields) {
    point.*field.member =
        table.number(field.name, false, field.optional ? std::optional(0.0) : std::nullopt);
  }
  table.finish();
  if (point.backward_input_s > point.backward_s) {
    table.refuse("backward_input_s", "at most backward_s, of which it is a part");
  }
  return point;
}

LayerKind read_kind(TomlTable table) {
  LayerKind kind;
  kind.name = table.line("name");
  kind.parameters = table.integer("parameters", 0, kMostParameters);
  for (const KindField& field : kKindFields) kind.*field.member = table.number(field.name, false);
  for (TomlTable& point : table.tables("point"))
    kind.points.push_back(read_point(std::move(point)));
  table.finish();
  const auto later = [](const LayerPoint& a, const LayerPoint& b) {
    return a.sequences >= b.sequences;
  };
  if (std::adjacent_find(kind.points.begin(), kind.points.end(), later) != kind.points.end()) {
    table.refuse("point", "points with ascending sequences");
  }
  return kind;
}

void read_kinds(TomlTable& table, Profile& profile) {
  for (TomlTable& layer : table.tables("layer")) {
    LayerKind kind = read_kind(std::move(layer));
    if (std::ranges::count(profile.kinds, kind.name, &LayerKind::name) > 0) {
      table.refuse("layer", cat("kinds of different names, but two are '", kind.name, "'"));
    }
    profile.kinds.push_back(std::move(kind));
  }
}

void check_names(const TomlTable& table, const Profile& profile) {
  if (profile.blocks.empty()) table.refuse("blocks", "at least one block");
  if (std::ssize(profile.blocks) > kMostBlocks) {
    table.refuse("blocks", cat("at most ", kMostBlocks, " blocks"));
  }
  const auto check = [&](std::string_view key, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (std::ranges::count(profile.kinds, name, &LayerKind::name) > 0) continue;
      table.refuse(key, cat("names of the [[layer]]s, but none is '", name, "'"));
    }
  };
  check("first", profile.first);
  check("blocks", profile.blocks);
  check("last", profile.last);
  check("each", profile.each);
}

// What two ends share, each of them has.
void check_shared(const TomlTable& table, const Profile& profile) {
  for (const auto* names : {&profile.first, &profile.last}) {
    std::int64_t parameters = 0;
    for (const std::string& name : *names) parameters += profile.kind(name).parameters;
    if (profile.shared_parameters <= parameters) continue;
    table.refuse("shared_parameters", "at most the parameters of the first and of the last layers");
  }
}

LinkFit read_fit(TomlTable table) {
  LinkFit fit;
  fit.link.latency_s = table.number("latency_s", false);
  fit.link.bandwidth = table.number("bytes_per_s", true);
  fit.mean_error = table.number("mean_error", false);
  fit.worst_error = table.number("worst_error", false);
  table.finish();
  return fit;
}

// Blocks may be many, so a name that repeats is written once with its count: "64 block".
std::vector<std::string> read_names(TomlTable& table, std::string_view key) {
  std::vector<std::string> names;
  for (const std::string& word : table.texts(key)) {
    const auto blank = word.find(' ');
    const auto count = parse_number<int>(std::string_view(word).substr(0, blank));
    if (blank == std::string::npos) {
      names.push_back(word);
    } else if (count && *count > 0 && *count <= kMostBlocks) {
      names.insert(names.end(), static_cast<std::size_t>(*count), word.substr(blank + 1));
    } else {
      table.refuse(
          key,
          cat("names of kinds, with a count before those that repeat, as \"64 block\", of at most ",
              kMostBlocks));
    }
  }
  return names;
}

std::vector<std::string> fold(const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < names.size();) {
    std::size_t end = begin;
    while (end < names.size() && names[end] == names[begin]) ++end;
    words.push_back(
        toml_text(end - begin == 1 ? names[begin] : cat(end - begin, " ", names[begin])));
    begin = end;
  }
  return words;
}

void print_fit(std::ostream& out, std::string_view name, const LinkFit& fit) {
  out << "\n[" << name << "]\nlatency_s = " << exact_text(fit.link.latency_s)
      << "\nbytes_per_s = " << exact_text(fit.link.bandwidth)
      << "\nmean_error = " << exact_text(fit.mean_error)
      << "\nworst_error = " << exact_text(fit.worst_error) << "\n";
}

void print_kind(std::ostream& out, const LayerKind& kind) {
  out << "\n[[layer]]\nname = " << toml_text(kind.name) << "\nparameters = " << kind.parameters
      << "\n";
  for (const KindField& field : kKindFields) {
    out << field.name << " = " << exact_text(kind.*field.member) << "\n";
  }
  for (const LayerPoint& point : kind.points) {
    out << "\n[[layer.point]]\nsequences = " << point.sequences << "\n";
    for (const PointField& field : kPointFields) {
      out << field.name << " = " << exact_text(point.*field.member) << "\n";
    }
  }
}

}  // namespace

LayerPoint LayerKind::at(int sequences) const {
  const auto next = std::lower_bound(
      points.begin(), points.end(), sequences,
      [](const LayerPoint& point, int wanted) { return point.sequences < wanted; });
  if (next != points.end() && next->sequences == sequences) return *next;
  if (next == points.end() || next == points.begin()) {
    throw Error(ErrorCode::kUsage, cat("the profile has no micro-batches of ", sequences,
                                       " sequences for layers of kind '", name,
                                       "'; it has sizes from ", points.front().sequences, " to ",
                                       points.back().sequences, "; profile more sizes"));
  }
  const LayerPoint& before = *std::prev(next);
  const double part = static_cast<double>(sequences - before.sequences) /
                      static_cast<double>(next->sequences - before.sequences);
  LayerPoint point;
  point.sequences = sequences;
  for (const PointField& field : kPointFields) {
    point.*field.member = std::lerp(before.*field.member, (*next).*field.member, part);
  }
  return point;
}

// Weighted by 1 / seconds^2, so that a small message's line is as good as a large one's. Where the
// best line would begin below 0, it is the best of those through 0.
LinkFit fit_link(const std::vector<SizedTime>& points) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const SizedTime& point : points) {
    const double weight = 1 / (point.seconds * point.seconds);
    w += weight;
    wx += weight * point.bytes;
    wy += weight * point.seconds;
    wxx += weight * point.bytes * point.bytes;
    wxy += weight * point.bytes * point.seconds;
  }
  const auto same_size = [&](const SizedTime& p) { return p.bytes == points.front().bytes; };
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  if (std::ranges::all_of(points, same_size) || !std::isfinite(slope) || slope <= 0) {
    throw Error(ErrorCode::kData,
                cat("no line of latency and bandwidth goes through ", points.size(),
                    " measured times; expected larger messages to take longer; measure again, on a "
                    "machine that does nothing else"));
  }
  LinkFit fit;
  const double latency_s = (wy - slope * wx) / w;
  fit.link = latency_s > 0 ? Link{latency_s, 1 / slope} : Link{0, wxx / wxy};
  for (const SizedTime& point : points) {
    const double line = fit.link.latency_s + point.bytes / fit.link.bandwidth;
    const double error = std::abs(point.seconds - line) / point.seconds;
    fit.mean_error += error / static_cast<double>(points.size());
    fit.worst_error = std::max(fit.worst_error, error);
  }
  return fit;
}

const LayerKind& Profile::kind(std::string_view name) const {
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const LayerKind& kind) { return kind.name == name; });
  if (found == kinds.end()) {
    throw Error(ErrorCode::kUsage, cat("the profile has no layers of kind '", name, "'"));
  }
  return *found;
}

std::int64_t Profile::parameters() const {
  std::int64_t sum = -shared_parameters;
  for (const auto* names : {&first, &blocks, &last}) {
    for (const std::string& name : *names) sum += kind(name).parameters;
  }
  return sum;
}

Profile parse_profile(std::string_view text, std::string_view source) {
  const toml::table parsed = parse_toml_text(text, source);
  TomlTable table(parsed, std::string(source));
  if (table.text("format") != kProfileFormat) table.refuse("format", toml_text(kProfileFormat));
  Profile profile;
  profile.device = table.line("device");
  profile.source = table.text("source");
  profile.first = read_names(table, "first");
  profile.blocks = read_names(table, "blocks");
  profile.last = read_names(table, "last");
  if (table.has("each")) profile.each = read_names(table, "each");
  profile.step_s = table.number("step_s", false);
  profile.tokens_bytes = table.number("tokens_bytes", false, 0);
  profile.shared_parameters = table.integer("shared_parameters", 0, kMostParameters, 0);
  TomlTable model = table.table("model");
  for (const std::string& key : model.keys()) profile.model[key] = model.line(key);
  if (table.has("p2p")) profile.p2p = read_fit(table.table("p2p"));
  if (table.has("all_reduce")) profile.reduce = read_fit(table.table("all_reduce"));
  read_kinds(table, profile);
  table.finish();
  check_names(table, profile);
  check_shared(table, profile);
  return profile;
}

Profile load_profile(const std::string& path) { return parse_profile(read_file(path), path); }

std::string print(const Profile& profile) {
  std::ostringstream out;
  out << "format = " << toml_text(kProfileFormat) << "\ndevice = " << toml_text(profile.device)
      << "\nsource = " << toml_text(profile.source) << "\nfirst = [" << join(fold(profile.first))
      << "]\nblocks = [" << join(fold(profile.blocks)) << "]\nlast = [" << join(fold(profile.last))
      << "]\neach = [" << join(fold(profile.each))
      << "]\ntokens_bytes = " << exact_text(profile.tokens_bytes)
      << "\nstep_s = " << exact_text(profile.step_s)
      << "\nshared_parameters = " << profile.shared_parameters << "\n\n[model]\n";
  for (const auto& [key, value] : profile.model) out << key << " = " << toml_text(value) << "\n";
  if (profile.p2p) print_fit(out, "p2p", *profile.p2p);
  if (profile.reduce) print_fit(out, "all_reduce", *profile.reduce);
  for (const LayerKind& kind : profile.kinds) print_kind(out, kind);
  return out.str();
}

}  // namespace chimera
