/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts: the same few lines in each shell's language. `cay complete` gets the words
 * typed so far and prints one candidate per line, some with a tab and a description, and ":files"
 * where local file names are valid, too.
 */
#include <stdio.h>
#include <string.h>

#include "cli/line/args.h"
#include "cli/line/command.h"

/*
 * bash splits words at ':' and '=' and completes only the last part: the script joins the words for
 * us, and removes the part before from our candidates.
 */
static const char bash[] =
	"# bash completion of cay; load it with: source <(cay completion bash)\n"
	"_cay()\n{\n"
	"\tlocal word line cut='' glue='' words=() files=()\n"
	"\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD}\"; do\n"
	"\t\tif [[ ${#words[@]} -gt 0 && ( $glue || $word == : || $word == = ) ]]; then\n"
	"\t\t\twords[-1]+=$word\n"
	"\t\telse\n"
	"\t\t\twords+=(\"$word\")\n"
	"\t\tfi\n"
	"\t\t[[ $word == : || $word == = ]] && glue=1 || glue=''\n"
	"\tdone\n"
	"\tword=${words[-1]}\n"
	"\t[[ $COMP_WORDBREAKS != *:* ]] || cut=${word%\"${word##*[:=]}\"}\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tif [[ $line == :files ]]; then\n"
	"\t\t\tmapfile -t files < <(compgen -f -- \"$word\")\n"
	"\t\t\tCOMPREPLY+=(\"${files[@]}\")\n"
	"\t\t\tcompopt -o filenames\n"
	"\t\telse\n"
	"\t\t\tline=${line%%$'\\t'*}\n"
	"\t\t\tCOMPREPLY+=(\"${line#\"$cut\"}\")\n"
	"\t\tfi\n"
	"\tdone < <(\"${COMP_WORDS[0]}\" complete -- \"${words[@]}\" 2>/dev/null)\n"
	"\t[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[/:] ]] || compopt -o nospace\n"
	"}\ncomplete -F _cay cay\n";

static const char zsh[] =
	"#compdef cay\n"
	"# zsh completion of cay; put it as _cay into a directory of $fpath\n"
	"_cay() {\n"
	"\tlocal line name files=''\n"
	"\tlocal -a names shown open\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tname=${line%%$'\\t'*}\n"
	"\t\tif [[ $line == :files ]]; then files=1\n"
	"\t\telif [[ $name == *[/:] ]]; then open+=(\"$name\")\n"
	"\t\telse\n"
	"\t\t\tnames+=(\"$name\")\n"
	"\t\t\tshown+=(\"${line/$'\\t'/  -- }\")\n"
	"\t\tfi\n"
	"\tdone < <(cay complete -- \"${(@Q)words[2,CURRENT-1]}\" \"$PREFIX\" 2>/dev/null)\n"
	"\t(( ${#names} )) && compadd -l -d shown -a names\n"
	"\t(( ${#open} )) && compadd -S '' -a open\n"
	"\t[[ -z $files ]] || _files\n"
	"}\n"
	"if [[ $funcstack[1] == _cay ]]; then _cay \"$@\"; else compdef _cay cay; fi\n";

static const char fish[] =
	"# fish completion of cay; put it as cay.fish into ~/.config/fish/completions\n"
	"function __cay_complete\n"
	"    set -l before (commandline -opc)\n"
	"    for line in (cay complete -- $before[2..-1] (commandline -ct) 2>/dev/null)\n"
	"        if test \"$line\" = :files\n"
	"            __fish_complete_path (commandline -ct)\n"
	"        else\n"
	"            printf '%s\\n' $line\n"
	"        end\n"
	"    end\n"
	"end\n"
	"complete -c cay -f -a '(__cay_complete)'\n";

int completion_run(struct cli *cli, const struct args *args, struct err *err)
{
	static const struct {
		const char *name, *script;
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

	(void)cli;
	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (strcmp(args->operands[0], shells[i].name) == 0)
			return fputs(shells[i].script, stdout) < 0 ? 1 : 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "completion exists for bash, zsh and fish, not for '%.60s'",
		       args->operands[0]);
}
