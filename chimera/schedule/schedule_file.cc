#include "chimera/schedule/schedule_file.h"

#include "chimera/base/file.h"
#include "chimera/schedule/text_form.h"

namespace chimera {

Schedule read_schedule(const std::string& path) {
  return parse(read_file(path), path == "-" ? "standard input" : path);
}

}  // namespace chimera
