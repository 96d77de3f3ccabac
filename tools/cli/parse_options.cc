#include "tools/cli/parse_options.h"

namespace uroce::cli {

namespace options = boost::program_options;

options::variables_map ParseOptions(const std::vector<std::string>& arguments,
                                    const options::options_description& description) {
  const int style =
      options::command_line_style::unix_style & ~options::command_line_style::allow_guessing;
  options::variables_map values;
  options::store(options::command_line_parser(arguments)
                     .options(description)
                     .positional({})
                     .style(style)
                     .run(),
                 values);
  return values;
}

}  // namespace uroce::cli
