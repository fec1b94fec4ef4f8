#include "chimera/schedule/schedule_file.h"

#include "chimera/base/file.h"
#include "chimera/schedule/csv_form.h"

namespace chimera {

Schedule read_schedule(const std::string& path) {
  return parse_file(read_file(path), path == "-" ? "standard input" : path);
}

}  // namespace chimera
