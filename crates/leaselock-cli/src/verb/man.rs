//! `leaselock man [VERB]`

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Cli;
use crate::args::inspect::ManArgs;
use crate::{exit, manual};

/// The manual page in roff, made from the definition of the arguments. The error names the verbs that exist.
pub(crate) fn text(args: &ManArgs) -> Result<Vec<u8>, String> {
    let mut command = Cli::command();
    // Verbs learn the global flags, and their own full name, from this.
    command.build();
    let page = match &args.verb {
        None => command.clone(),
        Some(verb) => command
            .find_subcommand(verb)
            .cloned()
            .ok_or_else(|| unknown(&command))?,
    };
    render(page, &command).map_err(|error| error.to_string())
}

fn unknown(command: &Command) -> String {
    let verbs: Vec<&str> = verbs(command).collect();
    format!(
        "there is no verb of that name; there are {}",
        verbs.join(", ")
    )
}

fn verbs(command: &Command) -> impl Iterator<Item = &str> {
    let names = command.get_subcommands().map(Command::get_name);
    names.filter(|name| *name != "help")
}

/// The sections in the order of flock(1), with the examples near the top, where they are read.
fn render(page: Command, whole: &Command) -> std::io::Result<Vec<u8>> {
    // The renderer leaves out the text of an option that the short help leaves out.
    let mut page = page.mut_args(|argument| argument.hide_short_help(false));
    let usage = page.render_usage().to_string();
    let examples = page.get_after_help().map(ToString::to_string);
    let has_verbs = page.has_subcommands();
    let variables = variables(&page);
    let is_whole = page.get_name() == whole.get_name();
    let man = Man::new(page);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    lines("SYNOPSIS", &usage_lines(&usage)).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    if let Some(examples) = examples {
        let examples = examples.strip_prefix(manual::EXAMPLES).unwrap_or(&examples);
        lines("EXAMPLES", examples).to_writer(&mut text)?;
    }
    man.render_options_section(&mut text)?;
    if has_verbs {
        man.render_subcommands_section(&mut text)?;
    }
    lines("EXIT STATUS", exit::HELP).to_writer(&mut text)?;
    list("ENVIRONMENT", &variables).to_writer(&mut text)?;
    let files = manual::FILES.map(|(file, what)| (file.to_owned(), what.to_owned()));
    list("FILES", &files).to_writer(&mut text)?;
    see_also(whole, is_whole).to_writer(&mut text)?;
    if is_whole {
        man.render_version_section(&mut text)?; // a verb has none of its own
    }
    Ok(text)
}

fn section(heading: &str) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", [heading]);
    roff
}

/// The usage without the word `Usage:`, one form per line.
fn usage_lines(usage: &str) -> String {
    let usage = usage.trim_start_matches("Usage:");
    let forms: Vec<&str> = usage.lines().map(str::trim).collect();
    forms.join("\n")
}

/// Text whose lines stay as they are.
fn lines(heading: &str, text: &str) -> Roff {
    let mut roff = section(heading);
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

/// Words, each with its meaning.
fn list(heading: &str, entries: &[(String, String)]) -> Roff {
    let mut roff = section(heading);
    for (word, meaning) in entries {
        roff.control("TP", []);
        roff.text([bold(word)]);
        roff.text([roman(meaning)]);
    }
    roff
}

/// The variables of options, from their definition, then the others.
fn variables(page: &Command) -> Vec<(String, String)> {
    let options = page.get_arguments().filter_map(|argument| {
        let variable = argument.get_env()?.to_str()?.to_owned();
        Some((
            variable,
            format!("The value of --{}.", argument.get_long()?),
        ))
    });
    let others = manual::VARIABLES.map(|(variable, what)| (variable.to_owned(), what.to_owned()));
    options.chain(others).collect()
}

/// Pages of other programs, and the page of the whole command or those of its verbs.
fn see_also(whole: &Command, is_whole: bool) -> Roff {
    let name = whole.get_name();
    let ours: Vec<String> = if is_whole {
        verbs(whole)
            .map(|verb| format!("{name}-{verb}(1)"))
            .collect()
    } else {
        vec![format!("{name}(1)")]
    };
    let others = manual::SEE_ALSO.map(str::to_owned);
    let mut roff = section("SEE ALSO");
    roff.text([roman([ours, others.into()].concat().join(", "))]);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(verb: Option<&str>) -> Result<String, String> {
        text(&ManArgs {
            verb: verb.map(Into::into),
        })
        .map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn the_page_of_the_command_names_the_verbs_and_the_exit_codes() {
        let page = page(None).unwrap();
        assert!(
            page.contains(".TH leaselock 1") && page.contains("69    the store cannot be reached")
        );
        for verb in Cli::command().get_subcommands() {
            assert!(page.contains(&format!("leaselock\\-{}(1)", verb.get_name())));
        }
    }

    #[test]
    fn every_page_has_the_sections_that_readers_of_manuals_know() {
        let command = Cli::command();
        for verb in std::iter::once(None).chain(verbs(&command).map(Some)) {
            let page = page(verb).unwrap();
            let sections: Vec<&str> = page
                .lines()
                .filter_map(|line| line.strip_prefix(".SH "))
                .collect();
            for wanted in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "\"EXIT STATUS\"",
                "ENVIRONMENT",
                "FILES",
                "\"SEE ALSO\"",
            ] {
                assert!(
                    sections.contains(&wanted),
                    "{verb:?}: no {wanted} in {sections:?}"
                );
            }
            assert!(!sections.contains(&"EXTRA"), "{verb:?}");
            for variable in ["LEASELOCK_URL", "LEASELOCK_PREFIX", "LEASELOCK_HANDLE"] {
                assert!(page.contains(variable), "{verb:?}: {variable}");
            }
        }
        for verb in ["run", "acquire", "status", "break"] {
            let page = page(Some(verb)).unwrap();
            let (_, examples) = page.split_once(".SH EXAMPLES\n").unwrap();
            assert!(
                examples.contains(&format!("leaselock {verb}")),
                "{examples}"
            );
        }
    }

    #[test]
    fn the_page_of_a_verb_has_its_own_flags_and_the_global_ones() {
        let page = page(Some("run")).unwrap();
        assert!(page.contains(".TH leaselock\\-run 1") || page.contains(".TH leaselock-run 1"));
        assert!(page.contains("kill\\-after") && page.contains("\\-\\-url"));
    }

    #[test]
    fn an_unknown_verb_is_answered_with_those_that_exist() {
        assert!(
            page(Some("fly"))
                .unwrap_err()
                .contains("run, hold, acquire, extend")
        );
    }
}
