#include "chimera/model/safetensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "chimera/base/error.h"
#include "chimera/model/testing.h"

namespace chimera {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  Safetensors() {
    std::string pattern = (fs::temp_directory_path() / "chimera-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path(const std::string& name = "a.safetensors") const {
    return folder_ / name;
  }
  void write_raw(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string read_raw() const {
    std::ostringstream text;
    text << std::ifstream(path(), std::ios::binary).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

std::string with_header(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST_F(Safetensors, ReadsWhatItWrote) {
  const NamedTensors tensors = {{"double", at::rand({3, 5}, at::kDouble)},
                                {"float", at::rand({7}, at::kFloat)},
                                {"brain", at::rand({2, 2}, at::kFloat).to(at::kBFloat16)},
                                {"long", at::arange(6, at::kLong).view({2, 3}).t()},
                                {"scalar", at::full({}, 3.5, at::kDouble)},
                                {"empty", at::empty({0, 4}, at::kFloat)},
                                {"quote \" and \xC3\xA9", at::ones({1}, at::kByte)}};
  write_safetensors(path(), tensors, {{"step", "12"}});
  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata(), (Metadata{{"step", "12"}}));
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.read(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // nothing temporary is left
}

// The fixture comes from a writer of its own, in Python.
TEST_F(Safetensors, ReadsAFileOfAnotherWriter) {
  const SafetensorsFile file("tests/parity/gpt2_tiny.safetensors");
  EXPECT_EQ(file.metadata().at("layers"), "2");
  EXPECT_EQ(file.read("tokens").scalar_type(), at::kLong);
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  write_safetensors(path(), {{"a", at::rand({3})}, {"b", at::rand({2}, at::kDouble)}});
  const std::string whole = read_raw();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write_raw(whole.substr(0, bytes));
    EXPECT_NE(refusal([&] { (void)SafetensorsFile(path()); }), "") << bytes;
  }
  write_raw(whole + "x");
  EXPECT_NE(refusal([&] { (void)SafetensorsFile(path()); }).find("by its header"),
            std::string::npos);
}

TEST_F(Safetensors, RefusesForeignAndDamagedFilesSayingWhy) {
  const std::string eight(8, '\0');
  struct Case {
    std::string bytes;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"a text file, and not a short one", "is no safetensors file"},
      {with_header("[1, 2]"), "no JSON object"},
      {with_header("{\"a\": "), "no JSON object"},
      {with_header(R"({"a": 3})"), "without 'dtype'"},
      {with_header(R"({"a": {"dtype": "F32", "shape": [2]}})"), "without 'data_offsets'"},
      {with_header(R"({"a": {"dtype": "F12", "shape": [2], "data_offsets": [0, 8]}})", eight),
       "of type \"F12\""},
      {with_header(R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})", eight),
       "expected counts"},
      {with_header(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", eight),
       "offsets that ascend"},
      {with_header(R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", eight),
       "in 8 bytes"},
      {with_header(
           R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 4294967296], "data_offsets": [0, 8]}})",
           eight),
       "in 8 bytes"},
      {with_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                       "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                   eight),
       "overlap or leave a gap"},
      {with_header(R"({"__metadata__": {"a": 3}})"), "expected a string"},
      {with_header(R"({"__metadata__": 3})"), "__metadata__"},
  };
  for (const Case& c : cases) {
    write_raw(c.bytes);
    const std::string text = refusal([&] { (void)SafetensorsFile(path()); });
    EXPECT_NE(text.find(c.part), std::string::npos) << c.part << ": " << text;
    EXPECT_NE(text.find(path().string()), std::string::npos) << text;
  }
  EXPECT_NE(refusal([&] { (void)SafetensorsFile(path("none")); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(refusal([&] { (void)SafetensorsFile(folder_); }), "");
}

TEST_F(Safetensors, AFailedWriteLeavesNothing) {
  EXPECT_NE(refusal([&] {
              write_safetensors(path("none/a"), {{"a", at::rand({3})}});
            }).find("No such file"),
            std::string::npos);
  fs::create_directory(path("folder"));
  EXPECT_NE(refusal([&] { write_safetensors(path("folder"), {{"a", at::rand({3})}}); }), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

NamedTensors values_of(const ParameterStore& store) {
  NamedTensors values;
  for (const auto& [name, parameter] : store.parameters()) values[name] = parameter.value;
  return values;
}

TEST_F(Safetensors, WeightsOfOneSplitLoadIntoAnother) {
  const ModelSpec spec = tiny_spec();
  ParameterStore whole(1, spec.dtype);
  whole.create(model_parameters(spec));
  write_safetensors(path(), values_of(whole));
  const std::vector<int> split = {3, 2, 2, 1};
  for (int stage = 0; stage < 4; ++stage) {
    ParameterStore part(2, spec.dtype);
    part.create(stage_parameters(spec, split, stage));
    load_weights(path(), spec, part);
    for (const auto& [name, parameter] : part.parameters()) {
      EXPECT_TRUE(at::equal(parameter.value, whole.at(name).value)) << name;
    }
  }
}

TEST_F(Safetensors, WeightsMustBeThoseOfTheModelByNameAndShape) {
  const ModelSpec spec = tiny_spec();
  ParameterStore store(1, spec.dtype);
  store.create(model_parameters(spec));
  const NamedTensors values = values_of(store);
  const auto load = [&](const std::function<void(NamedTensors&)>& change) {
    NamedTensors changed = values;
    change(changed);
    write_safetensors(path(), changed);
    return refusal([&] { load_weights(path(), spec, store); });
  };
  EXPECT_EQ(load([](NamedTensors&) {}), "");
  EXPECT_NE(
      load([](NamedTensors& t) { t.erase("h.3.ln_1.bias"); }).find("no tensor 'h.3.ln_1.bias'"),
      std::string::npos);
  EXPECT_NE(load([](NamedTensors& t) { t["h.8.ln_1.bias"] = at::rand({32}); }).find("has not"),
            std::string::npos);
  EXPECT_NE(load([](NamedTensors& t) {
              t["wpe.weight"] = at::rand({17, 32});
            }).find("shape [17, 32] and type fp32, expected shape [16, 32]"),
            std::string::npos);
  EXPECT_NE(load([](NamedTensors& t) { t["ln_f.bias"] = at::ones({32}, at::kLong); }).find("int64"),
            std::string::npos);
}

}  // namespace
}  // namespace chimera
