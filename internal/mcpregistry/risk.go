package mcpregistry

import (
	"regexp"
	"slices"
	"strings"
)

// A publisher names the package that runs, and what is read here is shown before it does. What its
// package and its arguments are cannot be judged; that a variable makes the runtime load something
// else can, and nobody expects it from a name of a package.

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,199}$`)

// Variables that change which code a loader, a shell, a runtime or one of the runners executes, or
// from where it is fetched: names, and beginnings of names.
var (
	codeVariables = []string{"PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS",
		"ZDOTDIR",
		"CDPATH", "GCONV_PATH", "LOCPATH", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE",
		"NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "ELECTRON_RUN_AS_NODE", "BUN_OPTIONS", "CLASSPATH",
		"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_HOME", "JAVA_OPTS", "_JAVA_OPTIONS", "MAVEN_OPTS",
		"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "PHPRC", "PHP_INI_SCAN_DIR",
		"LUA_INIT", "LUA_PATH", "LUA_CPATH", "JULIA_LOAD_PATH", "R_PROFILE", "R_PROFILE_USER", "EDITOR", "VISUAL",
		"PAGER", "BROWSER", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "COMSPEC", "PATHEXT", "VIRTUAL_ENV",
		"OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES"}
	codeBeginnings = []string{"LD_", "DYLD_", "PYTHON", "RUBY", "GEM_", "BUNDLE_", "PERL", "NPM_CONFIG_", "UV_", "PIP_",
		"NUGET_", "DOCKER_", "GIT_", "DOTNET_ROOT", "DOTNET_CLI_", "DOTNET_TOOL", "CORECLR_", "CORHOST_", "CORE_",
		"COR_", "COMPLUS_", "LUA_INIT_", "XDG_", "BASH_FUNC_", "GLIBC_TUNABLES", "MALLOC_", "MSBUILD"}
	// harmlessVariables are common, and change only how a program writes.
	harmlessVariables = []string{"PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE",
		"NPM_CONFIG_LOGLEVEL", "DOTNET_CLI_TELEMETRY_OPTOUT"}
)

// changesCode reports whether a variable changes what is executed. Some systems and programs
// ignore case.
func changesCode(name string) bool {
	name = strings.ToUpper(name)
	return !slices.Contains(harmlessVariables, name) && (slices.Contains(codeVariables, name) ||
		slices.ContainsFunc(codeBeginnings, func(start string) bool { return strings.HasPrefix(name, start) }))
}

// checkEnv refuses variables that are none, and values of the publisher for variables that change
// what is executed.
func (b *builder) checkEnv() {
	for _, v := range b.way.Env {
		switch {
		case !envName.MatchString(v.Name):
			b.refuse(BadName, v.Name)
		case changesCode(v.Name) && b.isPublishers(v.Value):
			b.refuse(RiskyVariable, v.Name)
		}
	}
}

// isPublishers reports whether a part of a value, or all that can be chosen for it, is the
// publisher's.
func (b *builder) isPublishers(t Template) bool {
	return slices.ContainsFunc(t, func(p Part) bool {
		return p.Text != "" || slices.ContainsFunc(b.way.Inputs, func(in Input) bool {
			return in.Name == p.Input && (in.Default != "" || len(in.Choices) > 0)
		})
	})
}
