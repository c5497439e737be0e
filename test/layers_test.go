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

// ground are the rooms that stand on nothing of ours.
var ground = []string{"bus", "config", "fetch", "jsonrpc", "observe", "qr", "seal", "store", "talk", "tool"}

// standsOn says which packages of ours a package may import, by their folder
// below internal. A folder stands for everything in it. What is not listed here
// has no place in the house yet: give it one, here and in AGENTS.md.
var standsOn = map[string][]string{
	"bus": nil, "config": nil, "fetch": nil, "jsonrpc": nil, "observe": nil, "qr": nil, "seal": nil, "store": nil, "talk": nil, "tool": nil,
	"licenses": nil, "proxytest": nil,

	"account": {"seal", "store", "talk"},
	"voice":   nil,
	"backup":  {"seal", "store"},
	"board":   {"account", "bus", "jsonrpc", "seal", "store", "talk", "tool"}, // and no plug
	// What people can do, and the two ways to it.
	"control": {"account", "backup", "board", "fetch", "plug/learn", "seal", "store", "talk", "tool"},
	"api":     {"account", "backup", "board", "control", "fetch", "observe", "seal", "store", "talk", "tool"},
	"console": {"account", "backup", "board", "control", "observe", "plug/learn", "qr", "store", "talk", "tool"},

	// A plug knows the board and the vocabulary, and no other plug.
	"plug/bots":           {"board", "store", "talk", "tool"},
	"plug/echo":           {"board", "store", "talk"},
	"plug/eyeclaw":        {"talk"},
	"plug/learn":          {"board", "plug/learn/schedule", "plug/learn/transfer", "store", "talk", "tool"},
	"plug/learn/embed":    nil,
	"plug/learn/fsrs":     {"talk"},
	"plug/learn/quiz":     {"plug/learn", "plug/learn/schedule", "store", "talk"},
	"plug/learn/remind":   {"plug/learn", "plug/learn/schedule", "store", "talk"},
	"plug/learn/schedule": {"plug/learn/fsrs", "store", "talk"},
	"plug/learn/transfer": {"store", "talk"},
	"plug/mcp":            {"account", "board", "fetch", "jsonrpc", "seal", "talk", "tool"},
	"plug/xiaozhi":        {"account", "board", "plug/xiaozhi/mqtt", "plug/xiaozhi/remote", "plug/xiaozhi/udp", "plug/xiaozhi/wire", "seal", "store", "talk", "tool", "voice"},
	"plug/xiaozhi/broker": {"plug/xiaozhi/mqtt"},
	"plug/xiaozhi/mqtt":   {"plug/xiaozhi/wire"},
	"plug/xiaozhi/remote": {"jsonrpc", "plug/xiaozhi/wire", "tool"},
	"plug/xiaozhi/sim":    {"jsonrpc", "plug/xiaozhi/wire"},
	"plug/xiaozhi/udp":    {"plug/xiaozhi/wire"},
	"plug/xiaozhi/wire":   {"jsonrpc"},
	"plug/mcp/stdio":      {"jsonrpc"},
	"plug/mcp/upstream":   {"fetch", "jsonrpc", "talk", "tool"},
	"plug/openai":         {"fetch", "talk", "tool"},

	"plug/openclaw/bot":          {"board", "plug/openclaw/client", "plug/openclaw/wire", "store", "talk"},
	"plug/openclaw/client":       {"fetch", "plug/openclaw/wire", "talk"},
	"plug/openclaw/gateway":      {"account", "board", "bus", "jsonrpc", "plug/openclaw/wire", "seal", "store", "talk", "tool"},
	"plug/openclaw/openclawtest": {"plug/openclaw/wire"},
	"plug/openclaw/shim":         {"board", "jsonrpc", "plug/openclaw/client", "plug/openclaw/wire", "talk", "tool"},
	"plug/openclaw/sim":          {"plug/openclaw/client", "plug/openclaw/wire"},
	"plug/openclaw/wire":         {"jsonrpc"},
	"plug/rokid":                 {"account", "board", "fetch", "qr", "store", "talk"},

	// Only app knows everything.
	"app": append([]string{"account", "api", "backup", "board", "console", "control", "plug", "voice"}, ground...),
}

const inside = "patchbay/internal/"

// pkg is what the go command tells about a package.
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
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,IgnoredGoFiles", "patchbay/...")
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
	if len(list) < len(standsOn) {
		t.Fatalf("only %d packages found", len(list))
	}
	return list
}

// helper says that a package is there for tests, the demo and benchmarks: the
// far sides of our connections, and rigs.
func helper(importPath string) bool {
	last := path.Base(importPath)
	return last == "sim" || strings.HasSuffix(last, "test")
}

// room is the folder of standsOn that a package belongs to, or "".
func room(importPath string) string {
	rel, ok := strings.CutPrefix(importPath, inside)
	for ok {
		if _, known := standsOn[rel]; known {
			return rel
		}
		rel, ok = path.Dir(rel), path.Dir(rel) != "."
	}
	return ""
}

// A room stands only on rooms below it.
func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, inside) {
			continue
		}
		here := room(p.ImportPath)
		if here == "" {
			t.Errorf("%s has no place in standsOn", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, "patchbay/") {
				continue
			}
			if why := forbidden(p.ImportPath, here, imported); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
}

// forbidden says why one of our packages must not import another, or "".
func forbidden(importer, here, imported string) string {
	switch {
	case !strings.HasPrefix(imported, inside):
		return "it is no part of the house"
	case helper(imported) && !helper(importer):
		return "it is for tests, the demo and benchmarks"
	case helper(imported) || room(imported) == here:
		return ""
	}
	below := strings.TrimPrefix(imported, inside)
	for _, allowed := range standsOn[here] {
		if below == allowed || strings.HasPrefix(below, allowed+"/") {
			return ""
		}
	}
	if helper(importer) && slices.Contains(standsOn["app"], strings.SplitN(below, "/", 2)[0]) && !strings.HasPrefix(below, "plug/") {
		return "" // a rig may use what the whole program uses, apart from plugs
	}
	return here + " stands on " + strings.Join(standsOn[here], ", ")
}

// Whoever breaks a layer must be told: the rules above are tried on imports that
// they forbid.
func TestLayersForbid(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		forbidden          bool
	}{
		{"talk", "store", true},
		{"store", "talk", true},
		{"board", "plug/echo", true},
		{"board", "store", false},
		{"plug/rokid", "plug/openai", true},
		{"plug/rokid", "plug/eyeclaw/sim", true},
		{"plug/rokid", "plug/rokid/hud", false},
		{"plug/rokid/hud", "talk", false},
		{"plug/rokid/hud", "api", true},
		{"plug/openai", "config", true},
		{"account", "board", true},
		{"app", "plug/rokid", false},
		{"app", "plug/openai/openaitest", true},
		{"board", "store/storetest", true},
		{"board/boardtest", "store/storetest", false},
		{"board/boardtest", "plug/rokid", true},
	} {
		importer := inside + c.importer
		if got := forbidden(importer, room(importer), inside+c.imported) != ""; got != c.forbidden {
			t.Errorf("%s may not import %s: %t, want %t", c.importer, c.imported, got, c.forbidden)
		}
	}
	if room(inside+"cellar") != "" {
		t.Error("a room that nobody knows passes")
	}
}

// rule is something that must not stand in a source file.
type rule struct {
	name  string
	where func(file string) bool
	match *regexp.Regexp
	// unless: a file that has this may have the other too.
	unless *regexp.Regexp
	except []string // files, by path in the repository
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
			"internal/store/storetest/storetest.go", "internal/store/storetest/migrated.go", // make databases for tests
			// Anki's files are databases.
			"internal/plug/learn/transfer/apkg/write.go", "internal/plug/learn/transfer/apkg/collection.go", "internal/plug/learn/transfer/apkg/read.go",
		},
		unless: regexp.MustCompile(`(?m)^package store$`),
		why:    "rows are the business of package store",
	},
	{
		name: "two SQL texts", where: func(file string) bool {
			return strings.HasPrefix(file, "internal/store/") && path.Base(file) != "store.go" && !tests(file)
		},
		match: regexp.MustCompile(`\bdialect\b`),
		// Each searches words in its own way, and one of them is connected to.
		except: []string{"internal/store/learn_search.go", "internal/store/postgres.go"},
		why:    "SQLite and PostgreSQL are spoken to with one text",
	},
}

// TestRules looks for what must not stand in the source.
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

// sources are all Go files of the repository by path, apart from this one, which
// names what it forbids.
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

// root is the folder of go.mod, seen from this package's.
const root = ".."

// walk reads the repository's files whose names end in one of some ways.
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

// No file of the program needs a C compiler, whatever the import looks like.
func TestNoCgo(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s has files that need cgo: %v", p.ImportPath, p.CgoFiles)
		}
	}
}
