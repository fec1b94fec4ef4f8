// The HTML page that shows timelines: style, structure and script, with a place for the data.
// What the data is, render_html.cc says.
#pragma once

#include <string>
#include <string_view>

namespace chimera {

// `data` is JSON without '<', as it stands within a script element.
[[nodiscard]] std::string page_around(std::string_view data);

}  // namespace chimera
