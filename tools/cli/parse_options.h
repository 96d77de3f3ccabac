#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace uroce::cli {

// Parses `arguments`: options of `description` as Unix programs write them, never abbreviated, and
// nothing but options. Throws boost::program_options::error, which says what is wrong.
boost::program_options::variables_map ParseOptions(
    const std::vector<std::string>& arguments,
    const boost::program_options::options_description& description);

}  // namespace uroce::cli
