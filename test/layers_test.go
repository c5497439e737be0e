package test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kit are the packages that every package may import; they import none of ours.
var kit = []string{"netx"}

// baseLayers are the packages that import none of ours but texts, findings and the kit.
var baseLayers = []string{"bus", "check", "config", "fetch", "i18n", "jsonrpc", "observe", "problem", "qr", "seal", "settings",
	"store", "talk", "tool", "toolbox", "tracing"}

// allowedImports lists the packages of ours that a package may import, by folder below internal. A
// folder includes its subfolders. A plug that is not listed may import plugImports. Any other
// package that is not listed has no layer yet: add it here and in AGENTS.md.
var allowedImports = map[string][]string{
	"netx": nil,
	"bus":  {"check", "i18n"}, "check": {"i18n"}, "config": {"i18n", "settings"}, "fetch": nil, "i18n": nil, "jsonrpc": nil,
	"observe": nil, "problem": {"i18n"}, "qr": nil, "seal": {"check", "i18n"}, "store": {"check", "i18n"},
	"pin": {"jsonrpc", "tool"}, "roles": {"i18n"}, "settings": {"i18n", "seal"}, "talk": {"i18n"}, "tool": nil, "toolbox": {"talk", "tool"},
	"tracing":           {"check", "i18n"},
	"i18n/translations": {"i18n"}, // only programs need it
	"service":           {"i18n", "netx"}, "upgrade": {"i18n"},
	"licenses": nil, "plain": {"i18n"}, "porttest": nil, "proxytest": nil, "slowtest": {"plug/xiaozhi/sim"},

	"relay": {"i18n"}, "webpush": nil,

	"account":        {"check", "i18n", "seal", "store"},
	"certs":          {"i18n", "seal", "store"},
	"oidc":           {"check", "i18n"},
	"oauth":          {"account", "i18n", "problem", "seal", "store"},
	"voice":          nil,
	"voice/engine":   {"i18n", "settings"},
	"voice/spoken":   {"i18n", "plain"},
	"voice/realtime": {"i18n", "settings", "voice"},
	"voice/engines":  {"check", "fetch", "i18n", "settings", "voice"},
	"backup":         {"seal", "store"},
	"hub": {"account", "bus", "check", "i18n", "jsonrpc", "pin", "problem", "seal", "settings",
		"store", "talk", "tool", "tracing"}, // and no plug
	// The use cases, and the two ways to them.
	"control": {"account", "backup", "check", "hub", "fetch", "i18n", "mcpregistry", "oauth", "oidc", "pin",
		"plug/learn", "problem", "roles",
		"seal", "settings", "store", "talk", "tool"},
	"manual":      {"i18n"},
	"mcpregistry": {"i18n"},
	"discovery":   {"netx"},
	"api": {"account", "backup", "hub", "control", "fetch", "i18n", "observe", "problem", "seal", "store",
		"talk", "tool", "tracing"},
	"console": {"account", "backup", "hub", "control", "discovery", "i18n", "manual", "mcpregistry", "oauth",
		"oidc", "observe", "pin",
		"plug/eyeclaw/connector", "plug/learn", "plug/learn/push", "problem", "qr", "roles", "webpush",
		"settings",
		"store", "talk", "tool", "toolbox", "voice/engine"},

	// These plugs need more, or have packages below them that need less.
	"plug/bots":              {"check", "hub", "i18n", "store", "talk", "tool"},
	"plug/eyeclaw/connector": nil,
	"plug/eyeclaw":           {"i18n", "talk", "tool", "toolbox"},
	"plug/learn": {"check", "fetch", "hub", "i18n", "plug/learn/ankisearch", "plug/learn/card", "plug/learn/fsrs",
		"plug/learn/fsrs/fit", "plug/learn/fsrs/simulate", "plug/learn/markdown",
		"plug/learn/note", "plug/learn/schedule", "plug/learn/transfer", "problem", "store", "talk", "tool"},
	// An API of its own over the use cases, beside api and console.
	"plug/learn/ankiconnect": {"account", "control", "i18n", "observe", "plug/learn", "plug/learn/card",
		"plug/learn/note", "problem", "store"},
	"plug/learn/ankisearch":    nil,
	"plug/approve":             {"hub", "i18n", "pin", "store", "talk", "voice"},
	"plug/learn/card":          {"plug/learn/note"},
	"plug/learn/embed":         nil,
	"plug/learn/fsrs":          {"i18n"},
	"plug/learn/fsrs/fit":      {"plug/learn/fsrs"},
	"plug/learn/fsrs/simulate": {"plug/learn/fsrs"},
	"plug/learn/note":          nil,
	"plug/learn/push":          {"i18n", "plug/learn/remind", "problem", "seal", "store", "webpush"},
	"plug/learn/quiz":          {"i18n", "plug/learn", "plug/learn/schedule", "problem", "store", "talk"},
	"plug/learn/remind":        {"i18n", "plug/learn", "plug/learn/schedule", "store"},
	"plug/learn/schedule":      {"i18n", "plug/learn/fsrs", "store"},
	"plug/learn/markdown":      {"plug/learn/card"},
	"plug/learn/sim":           {"i18n", "plug/learn/fsrs", "plug/learn/note", "plug/learn/schedule", "plug/learn/transfer", "store"},
	"plug/learn/transfer":      {"i18n", "plug/learn/card", "plug/learn/note", "plug/learn/schedule", "store"},
	"plug/mcp":                 {"account", "hub", "fetch", "i18n", "jsonrpc", "plug/mcp/apps", "seal", "tool", "tracing"},
	"plug/mcp/apps":            {"i18n"},
	"plug/xiaozhi": {"account", "check", "hub", "i18n", "plain", "plug/xiaozhi/mqtt", "plug/xiaozhi/remote", "plug/xiaozhi/udp",
		"plug/xiaozhi/wire", "seal", "settings", "store", "talk", "tool", "voice"},
	"plug/xiaozhi/broker": {"plug/xiaozhi/mqtt"},
	"plug/xiaozhi/mqtt":   {"plug/xiaozhi/wire"},
	"plug/xiaozhi/remote": {"jsonrpc", "plug/xiaozhi/wire", "tool"},
	"plug/xiaozhi/sim":    {"jsonrpc", "plug/xiaozhi/wire"},
	"plug/xiaozhi/udp":    {"plug/xiaozhi/wire"},
	"plug/xiaozhi/wire":   {"jsonrpc"},
	"plug/mcp/stdio":      {"jsonrpc"},
	"plug/mcp/mcpb":       nil,
	"plug/mcp/upstream": {"fetch", "i18n", "jsonrpc", "pin", "plug/mcp/upstream/openapi", "settings",
		"tool", "tracing"},
	"plug/mcp/upstream/openapi": {"i18n", "jsonrpc"},
	"plug/mcp/upstream/signin":  {"i18n", "plug/mcp/upstream", "seal", "store"},
	"plug/openai":               {"check", "fetch", "i18n", "settings", "talk", "tool", "toolbox", "tracing"},
	"plug/realtime":             {"check", "hub", "i18n", "settings", "store", "talk", "tool", "toolbox", "voice"},

	"plug/openclaw/bot": {"check", "hub", "i18n", "plug/openclaw/client", "plug/openclaw/wire", "settings", "store",
		"talk"},
	"plug/openclaw/client": {"fetch", "i18n", "plug/openclaw/wire"},
	"plug/openclaw/gateway": {"account", "check", "hub", "bus", "i18n", "jsonrpc", "plug/openclaw/client",
		"pin", "plug/openclaw/mcpnode", "plug/openclaw/wire", "problem", "seal", "store", "talk", "tool", "tracing"},
	"plug/openclaw/mcpnode":      {"jsonrpc", "plug/openclaw/wire", "tool"},
	"plug/openclaw/openclawtest": {"plug/openclaw/wire"},
	"plug/openclaw/shim": {"check", "hub", "i18n", "jsonrpc", "plug/openclaw/client", "plug/openclaw/mcpnode",
		"plug/openclaw/wire",
		"tool"},
	"plug/openclaw/sim":  {"plug/openclaw/client", "plug/openclaw/wire"},
	"plug/openclaw/wire": {"jsonrpc"},
	"plug/rokid":         {"account", "hub", "fetch", "i18n", "plain", "qr", "store", "talk", "tracing"},

	// Only app imports everything.
	"app": append([]string{"account", "api", "backup", "certs", "hub", "console", "control", "discovery", "mcpregistry",
		"oauth", "oidc", "pin", "plug", "relay", "service", "upgrade", "voice"}, baseLayers...),

	// Commands call operations. Serve, demo and the simulated devices need the rest.
	"cli": {"api", "app", "backup", "certs", "check", "config", "control", "i18n", "licenses", "mcpregistry", "observe",
		"pin", "plug", "problem", "qr", "relay", "service", "settings", "talk", "tool", "upgrade", "voice"},
}

// plugImports are what a plug may import that is not in allowedImports: the hub and the vocabulary,
// and no other plug.
var plugImports = []string{"check", "hub", "i18n", "plain", "problem", "settings", "store", "talk", "tool"}

const inside = "patchbay/internal/"

// pkg is a package as listed by the go command.
type pkg struct {
	ImportPath, Dir           string
	Imports                   []string
	GoFiles, CgoFiles         []string
	TestGoFiles, XTestGoFiles []string
	IgnoredGoFiles            []string
}

// packages lists the packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list",
		"-json=ImportPath,Dir,Imports,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,IgnoredGoFiles", "patchbay/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < len(allowedImports) {
		t.Fatalf("only %d packages found", len(list))
	}
	return list
}

// isTestHelper reports whether a package only serves tests, the demo and benchmarks: simulated
// peers and test rigs.
func isTestHelper(importPath string) bool {
	last := path.Base(importPath)
	return last == "sim" || strings.HasSuffix(last, "test")
}

// layerOf returns the folder of allowedImports that contains a package, or the folder of a plug
// that is not listed, or "".
func layerOf(importPath string) string {
	rel, ok := strings.CutPrefix(importPath, inside)
	parts := strings.Split(rel, "/")
	for ok {
		if _, known := allowedImports[rel]; known {
			return rel
		}
		rel, ok = path.Dir(rel), path.Dir(rel) != "."
	}
	if parts[0] == "plug" && len(parts) > 1 {
		return "plug/" + parts[1]
	}
	return ""
}

// A package imports only packages of lower layers.
func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, inside) {
			continue
		}
		here := layerOf(p.ImportPath)
		if here == "" {
			t.Errorf("%s has no place in allowedImports", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, "patchbay/") {
				continue
			}
			if why := importViolation(p.ImportPath, here, imported); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
}

// The command line reaches data through the operations of /api/v1 only, so that permission, limits
// and admin events are the same as through the API and the console.
func TestCommandLineUsesOperations(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath+"/", "patchbay/cmd/") && !strings.HasPrefix(p.ImportPath+"/", inside+"cli/") {
			continue
		}
		for _, layer := range []string{"account", "hub", "seal", "store"} {
			if slices.Contains(p.Imports, inside+layer) {
				t.Errorf("%s imports %s", p.ImportPath, layer)
			}
		}
	}
}

// importViolation returns why one of our packages must not import another, or "".
func importViolation(importer, here, imported string) string {
	switch {
	case imported == "patchbay/docs": // only files
		return ""
	case !strings.HasPrefix(imported, inside):
		return "it is no part of the house"
	case isTestHelper(imported) && !isTestHelper(importer) && here != "cli":
		return "it is for tests, the demo and benchmarks"
	case isTestHelper(imported) || layerOf(imported) == here:
		return ""
	}
	below := strings.TrimPrefix(imported, inside)
	if slices.Contains(kit, below) && !slices.Contains(kit, here) {
		return ""
	}
	allowedHere, listed := allowedImports[here]
	if !listed {
		allowedHere = plugImports
	}
	for _, allowed := range allowedHere {
		if below == allowed || strings.HasPrefix(below, allowed+"/") {
			return ""
		}
	}
	if isTestHelper(importer) && slices.Contains(allowedImports["app"], strings.SplitN(below, "/", 2)[0]) &&
		!strings.HasPrefix(below, "plug/") {
		return "" // a rig may use what the whole program uses, except plugs
	}
	return here + " stands on " + strings.Join(allowedHere, ", ")
}

// The rules reject violations: they are tried on forbidden imports.
func TestLayersForbid(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		forbidden          bool
	}{
		{"talk", "store", true},
		{"store", "talk", true},
		{"hub", "plug/echo", true},
		{"hub", "store", false},
		{"talk", "netx", false},
		{"netx", "talk", true},
		{"plug/rokid", "plug/openai", true},
		{"plug/rokid", "plug/eyeclaw/sim", true},
		{"plug/xiaozhi", "plug/xiaozhi/wire", false},
		{"plain", "talk", true},
		{"plug/mcp/stdio", "jsonrpc", false},
		{"plug/mcp/stdio", "api", true},
		{"plug/openai", "config", true},
		{"plug/echo", "hub", false},
		{"plug/echo", "account", true},
		{"plug/newest", "talk", false},
		{"plug/newest/wire", "plug/newest", false},
		{"plug/newest", "plug/echo", true},
		{"plug/newest", "seal", true},
		{"account", "hub", true},
		{"app", "plug/rokid", false},
		{"app", "plug/openai/openaitest", true},
		{"cli", "plug/openai/openaitest", false}, // the demo
		{"cli", "control", false},
		{"cli", "store", true},
		{"app", "cli", true},
		{"hub", "store/storetest", true},
		{"board/boardtest", "store/storetest", false},
		{"board/boardtest", "plug/rokid", true},
	} {
		importer := inside + c.importer
		if got := importViolation(importer, layerOf(importer), inside+c.imported) != ""; got != c.forbidden {
			t.Errorf("%s may not import %s: %t, want %t", c.importer, c.imported, got, c.forbidden)
		}
	}
	if layerOf(inside+"cellar") != "" {
		t.Error("a room that nobody knows passes")
	}
}

// rule forbids a pattern in source files.
type rule struct {
	name  string
	where func(file string) bool
	match *regexp.Regexp
	// unless exempts files that match this pattern.
	unless *regexp.Regexp
	except []string // exempt files, by path in the repository
	why    string
}

func code(file string) bool { return !strings.HasSuffix(file, "_test.go") && product(file) }

func product(file string) bool {
	return strings.HasPrefix(file, "internal/") || strings.HasPrefix(file, "cmd/")
}

func tests(file string) bool { return strings.HasSuffix(file, "_test.go") }

var rules = []rule{
	{
		name: "cgo", where: func(string) bool { return true },
		match: regexp.MustCompile(`(?m)^\s*import\s+"C"|^\s+"C"$`),
		why:   "the program is one static binary",
	},
	{
		name: "sleeping tests", where: tests,
		match: regexp.MustCompile(`\btime\.Sleep\(`), unless: regexp.MustCompile(`"testing/synctest"`),
		why: "a test waits for what it waits for, or sleeps on the clock of testing/synctest",
	},
	{
		name: "global logger", where: code,
		match: regexp.MustCompile(`\bslog\.(Default|SetDefault|Debug|Info|Warn|Error|Log)(Context)?\(|\blog\.(Print|Fatal|Panic)`),
		why:   "a logger is passed in",
	},
	{
		name: "global metrics", where: code,
		match: regexp.MustCompile(`\bprometheus\.(DefaultRegisterer|MustRegister|Register)\b|\bpromauto\.`),
		why:   "a registerer is passed in",
	},
	{
		name: "clients without limits", where: code,
		match: regexp.MustCompile(`\bhttp\.(DefaultClient\b|(Get|Post|PostForm|Head)\()`),
		why:   "a client has a time limit, and addresses from outside are fetched by package fetch",
	},
	{
		name: "SQL outside the store", where: code,
		match: regexp.MustCompile(`(?m)^\s*(_ |\w+ )?"(database/sql|github\.com/jackc/pgx[^"]*|modernc\.org/sqlite[^"]*)"( //.*)?$`),
		except: []string{
			// create databases for tests
			"internal/store/storetest/storetest.go", "internal/store/storetest/migrated.go",
			// Anki's files are databases.
			"internal/plug/learn/transfer/apkg/write.go", "internal/plug/learn/transfer/apkg/collection.go",
			"internal/plug/learn/transfer/apkg/read.go", "internal/plug/learn/transfer/apkg/load.go",
			"internal/plug/learn/transfer/apkg/newest.go",
		},
		unless: regexp.MustCompile(`(?m)^package store$`),
		why:    "rows are the business of package store",
	},
	{
		name: "two SQL texts", where: func(file string) bool {
			return strings.HasPrefix(file, "internal/store/") && path.Base(file) != "store.go" && !tests(file)
		},
		match: regexp.MustCompile(`\bdialect\b`),
		// Each searches words in its own way, and inserts many rows in its own; one of them
		// connects to PostgreSQL.
		except: []string{"internal/store/learn_search.go", "internal/store/query.go", "internal/store/postgres.go"},
		why:    "SQLite and PostgreSQL are spoken to with one text",
	},
}

// TestRules checks that no source file violates a rule.
func TestRules(t *testing.T) {
	files := sources(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			looked := 0
			for file, text := range files {
				if !r.where(file) {
					continue
				}
				looked++
				found := r.match.FindString(text)
				if found == "" || slices.Contains(r.except, file) || r.unless != nil && r.unless.MatchString(text) {
					continue
				}
				t.Errorf("%s has %q: %s", file, strings.TrimSpace(found), r.why)
			}
			if looked == 0 {
				t.Error("the rule looks at no file")
			}
		})
	}
}

// sources returns all Go files of the repository by path, except this one, which contains the
// forbidden patterns.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	walk(t, ".go", func(file, text string) {
		if file != "test/layers_test.go" {
			files[file] = text
		}
	})
	return files
}

// root is the folder of go.mod, relative to this package.
const root = ".."

// walk visits the repository's files whose names match an ending.
func walk(t *testing.T, ending string, visit func(file, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ending):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, name)
		visit(filepath.ToSlash(file), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No file of the program imports C, however the import is written.
func TestNoCgo(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s has files that need cgo: %v", p.ImportPath, p.CgoFiles)
		}
	}
}
