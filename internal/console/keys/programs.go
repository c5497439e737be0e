package keys

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
)

// group holds the configurations for one purpose of a key.
type group struct {
	title, told string
	pieces      []piece
}

// piece is a text to copy.
type piece struct {
	id, title, told, text string
	short                 bool // a single line
}

// address returns the URL by which others reach this server.
func address(v *page.Visit) string {
	if public := v.Instance.Control.PublicURL; public != "" {
		return strings.TrimSuffix(public, "/")
	}
	scheme := "http"
	if v.TLS != nil || strings.EqualFold(v.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + v.Host
}

// programs returns ready-made configurations for the scopes of a key.
func programs(v *page.Visit, at, key string, scopes []string) (out []group) {
	for _, p := range []struct {
		scope string
		of    func(v *page.Visit, at, key string) group
	}{
		{account.ScopeMCP, toolsSetup}, {account.ScopeLearn, learnSetup}, {account.ScopeLingzhu, glassesSetup},
		{account.ScopeNode, nodeSetup}, {account.ScopeOperator, operatorSetup}, {account.ScopeAdmin, operatorSetup},
	} {
		if slices.Contains(scopes, p.scope) && !(p.scope == account.ScopeAdmin &&
			slices.Contains(scopes, account.ScopeOperator)) {
			out = append(out, p.of(v, at, key))
		}
	}
	return out
}

// Parts of configurations, with their fields in the customary order.
type (
	remote struct {
		Type    string            `json:"type,omitempty"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}
	command struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env,omitempty"`
	}
	// vsCode is a complete mcp.json of VS Code.
	vsCode struct {
		Inputs  []input           `json:"inputs"`
		Servers map[string]remote `json:"servers"`
	}
	// input is a value that VS Code asks for once and stores encrypted.
	input struct {
		Type        string `json:"type"`
		ID          string `json:"id"`
		Description string `json:"description"`
		Password    bool   `json:"password"`
	}
)

func bearer(key string) map[string]string { return map[string]string{"Authorization": "Bearer " + key} }

// indented formats x as indented JSON.
func indented(x any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(x); err != nil {
		panic(err) // these are maps of strings
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// addressPieces returns the configurations of programs that take a URL.
func addressPieces(v *page.Visit, prefix, name, at, key string) []piece {
	// The file of VS Code may be in a project folder that is shared with others, so it does not
	// contain the key.
	asked := input{"promptString", name + "-key", v.Text(msgKeyAsked, name), true}
	return []piece{
		// For every project of the person; no shared file contains the key.
		{prefix + "-code", "Claude Code", v.Text(msgInTerminal),
			`claude mcp add --scope user --transport http ` + name + ` ` + at + ` --header "Authorization: Bearer ` +
				key + `"`, false},
		{prefix + "-cursor", "Cursor", v.Text(msgInFile, "~/.cursor/mcp.json"),
			indented(map[string]any{"mcpServers": map[string]any{name: remote{"", at, bearer(key)}}}), false},
		{prefix + "-vscode", "VS Code", v.Text(msgVSCode), indented(vsCode{[]input{asked},
			map[string]remote{name: {"http", at, bearer("${input:" + asked.ID + "}")}}}), false},
	}
}

// bridgePackage is the npm package that connects stdio clients with a server's URL. It gets the
// key, so the version is pinned to the one that was tested.
const bridgePackage = "mcp-remote@0.15.1"

func toolsSetup(v *page.Visit, at, key string) group {
	endpoint := at + "/mcp"
	args := []string{"-y", bridgePackage, endpoint}
	if strings.HasPrefix(endpoint, "http://") {
		args = append(args, "--allow-http")
	}
	// The header's space is kept out of the arguments: on some systems the program that starts the
	// command splits arguments at spaces.
	args = append(args, "--header", "Authorization:${AUTH_HEADER}")
	desktop := command{"npx", args, map[string]string{"AUTH_HEADER": "Bearer " + key}}
	pieces := append(addressPieces(v, "mcp", "patchbay", endpoint, key),
		piece{"mcp-bundle", v.Text(msgClaudeBundle), v.Text(msgBundleTold), "patchbay mcp bundle --server " + at,
			false},
		piece{"mcp-desktop", "Claude Desktop", v.Text(msgClaudeFile),
			indented(map[string]any{"mcpServers": map[string]any{"patchbay": desktop}}), false})
	return group{v.Text(msgMCPGroup), "", pieces}
}

func learnSetup(v *page.Visit, at, key string) group {
	desktop := command{"patchbay", []string{"learn", "mcp"},
		map[string]string{"PATCHBAY_SERVER": at, "PATCHBAY_KEY": key}}
	pieces := append(addressPieces(v, "learn", "learn", at+"/api/mcp", key),
		piece{"learn-desktop", "Claude Desktop", v.Text(msgClaudeLearn),
			indented(map[string]any{"mcpServers": map[string]any{"learn": desktop}}), false},
		piece{"learn-hand", v.Text(msgByHand), v.Text(msgInTerminal), `curl -s ` + at + `/api/mcp \
  -H "Authorization: Bearer ` + key + `" -H "Content-Type: application/json" \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"next_review","arguments":{}}}'`, false})
	return group{v.Text(msgLearnGroup), "", pieces}
}

func glassesSetup(v *page.Visit, at, key string) group {
	return group{v.Text(msgGlassesGroup), v.Text(msgLingzhuTold), []piece{
		{"lingzhu-url", v.Text(msgLingzhuURL), "", at + "/sse/rokid", true},
		{"lingzhu-ak", v.Text(msgLingzhuAK), "", key, true},
	}}
}

// hostOf splits an address into the parts that OpenClaw's programs need.
func hostOf(at string) (host, port string, secure bool) {
	u, err := url.Parse(at)
	if err != nil {
		return at, "", false
	}
	secure = u.Scheme == "https"
	host, port = u.Hostname(), u.Port()
	if port == "" {
		port = "80"
		if secure {
			port = "443"
		}
	}
	return host, port, secure
}

func nodeSetup(v *page.Visit, at, key string) group {
	host, port, secure := hostOf(at)
	text := "OPENCLAW_GATEWAY_TOKEN=" + key + " openclaw node run --host " + host + " --port " + port
	if secure {
		text += " --tls"
	}
	return group{v.Text(msgNodeGroup), "", []piece{{"node-run", "openclaw node run", v.Text(msgNodeTold),
		text + " --display-name study", false}}}
}

func operatorSetup(v *page.Visit, at, key string) group {
	host, port, secure := hostOf(at)
	scheme := "ws"
	if secure {
		scheme = "wss"
	}
	socket := scheme + "://" + net.JoinHostPort(host, port)
	return group{v.Text(msgOperGroup), "", []piece{
		{"oper-patchbay", v.Text(msgPatchbayCLI), v.Text(msgInTerminal),
			"export PATCHBAY_SERVER=" + at + "\nexport PATCHBAY_KEY=" + key + "\npatchbay bot list", false},
		{"oper-script", v.Text(msgByHand), v.Text(msgInTerminal),
			"curl -s " + at + "/api/v1/bots -H " + strconv.Quote("Authorization: Bearer "+key), false},
		{"oper-openclaw", v.Text(msgOpenClawCLI), v.Text(msgInTerminal),
			"openclaw nodes status --url " + socket + " --token " + key, false},
	}}
}
