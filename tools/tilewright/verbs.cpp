// The verbs that there are, in the order of the help.
#include "tilewright/command.h"
#include "tilewright/help.h"

namespace tw::cli {

void add_verbs(Application& application) {
  add_compile(application);
  add_run(application);
  add_bench(application);
  add_verify(application);
  add_inspect(application);
  add_explain(application);
  add_report(application);
  add_refit(application);
  add_advise(application);
  add_doctor(application);
  add_cache(application);
  add_db(application);
  add_templates(application);
  add_options_page(application);
  add_worker(application);
  use_help_text(application.app);
}

}  // namespace tw::cli
