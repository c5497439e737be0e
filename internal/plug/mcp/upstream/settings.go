package upstream

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/tool"
)

// The transports of [Settings]. Empty means automatic.
const (
	HTTP  = "http"  // Streamable HTTP, 2025-03-26 and later
	SSE   = "sse"   // HTTP+SSE, 2024-11-05
	Stdio = "stdio" // a command that is started here
	// OpenAPI is no MCP server: the tools are the operations that a document describes.
	OpenAPI = "openapi"
)

// WebSocket is the transport of inbound servers in [Status].
const WebSocket = "websocket"

// Defaults of [Settings].
const (
	DefaultTimeout    = 60 * time.Second
	DefaultConcurrent = 16
	DefaultMaxTools   = 2000
)

const (
	// maxTimeout catches a value in the wrong unit.
	maxTimeout = time.Hour
	// maxConcurrent limits the concurrent calls of one upstream, each of which holds a result in
	// memory.
	maxConcurrent = 1024
	// maxToolsLimit exceeds what any program offers to a model.
	maxToolsLimit = 20_000
	// maxPatterns limits the work per name in a list.
	maxPatterns = 1000
)

// Settings are the address of a server, its transport, and the choice of its tools. URL or
// Command is required, unless the server is inbound. They contain secrets.
type Settings struct {
	// Transport is "http", "sse" or "stdio". Empty means automatic: a command is "stdio", an
	// address that ends in /sse is "sse", and anything else is "http", with a fallback to "sse"
	// if the server refuses with a 4xx status.
	Transport string `json:"transport,omitempty"`
	// URL is the server's address, such as "https://example.com/mcp". Its query may hold a
	// secret; see [Settings.DisplayAddress].
	URL string `json:"url,omitempty"`
	// Headers are sent with every request and override the default ones.
	Headers map[string]string `json:"headers,omitempty" secret:"true" to:"base_url,url"`
	// Token is sent as a bearer token.
	Token string `json:"token,omitempty" secret:"true" to:"base_url,url"`
	// Document is the text of an OpenAPI document, if URL is not its address.
	Document string `json:"document,omitempty"`
	// BaseURL is the address that the paths of an OpenAPI document are below. Empty means the
	// server that the document names, which has to be where the document is.
	BaseURL string `json:"base_url,omitempty"`
	// Query are parameters of the query of all requests to an API, and Basic is the name and the
	// password there, as name:password.
	Query map[string]string `json:"query,omitempty" secret:"true" to:"base_url,url"`
	Basic string            `json:"basic,omitempty" secret:"true" to:"base_url,url"`
	// ClientID and ClientSecret were given to the owner by the server where one signs in. Without
	// them, Patchbay registers itself there.
	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty" secret:"true" to:"url"`
	// OAuthGrant is "client_credentials" if Patchbay signs in by itself, without a person, as
	// ClientID with ClientSecret or with PrivateKey, a key in PEM that KeyID names there. Scope are
	// the rights to ask for, separated by spaces; empty: those that the server demands.
	OAuthGrant string `json:"oauth_grant,omitempty"`
	PrivateKey string `json:"private_key,omitempty" secret:"true" to:"url"`
	KeyID      string `json:"key_id,omitempty"`
	Scope      string `json:"oauth_scope,omitempty"`
	// Command is the program to start, with Args, in directory Dir. Its environment is Env and,
	// of Patchbay's own, only PATH, HOME, LANG and TMPDIR.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty" secret:"true"`
	Dir     string            `json:"dir,omitempty"`
	// Allow and Deny select tools by their names at the server; "*" matches any text. An empty
	// Allow allows all. Deny takes precedence.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Pass selects what passes besides tools: "resources", "prompts", "sampling", "elicitation",
	// "roots" and "logging", or "none". Empty means all.
	Pass []string `json:"pass,omitempty"`
	// Roots are the file:// URIs of folders that the server may use, for servers that ask for them.
	// Empty means that it gets those of the program whose call runs.
	Roots []string `json:"roots,omitempty"`
	// Pin is "off" if changes of the server's tools need no approval. Empty means "on".
	Pin string `json:"pin,omitempty"`
	// Timeout limits one call; 0 means 60 s.
	Timeout settings.Duration `json:"timeout,omitempty"`
	// Concurrent limits the concurrent calls; 0 means 16.
	Concurrent int `json:"concurrent,omitempty"`
	// MaxTools limits the offered tools; 0 means 2000.
	MaxTools int `json:"max_tools,omitempty"`
}

// Validation errors of settings.
const (
	msgTransport      = i18n.Message("transport is %q; choose http, sse, stdio or openapi, or leave it out")
	msgDialsIn        = i18n.Message("the server connects to this one; take out transport, url, token, headers, command, args, env and dir")
	msgBoth           = i18n.Message("both an address and a command are given; keep url or command")
	msgNoURL          = i18n.Message("url is missing: give the server's address, for example https://example.com/mcp, or a command to start")
	msgCommandMissing = i18n.Message("command is missing: name the program to start, for example npx or /usr/bin/python3")
	msgForWeb         = i18n.Message("token and headers are for web addresses; give a command its secrets in env")
	msgZeroByte       = i18n.Message("command, args or dir hold a zero byte; take it out")
	msgEnv            = i18n.Message("env: %q cannot be set; names have no = and values no zero byte")
	msgTimeout        = i18n.Message(`timeout is %v; choose something like "30s", at most %v`)
	msgConcurrent     = i18n.Message("concurrent is %d; choose between 1 and %d")
	msgMaxTools       = i18n.Message("max_tools is %d; choose between 1 and %d")
	msgPass           = i18n.Message("pass has %q; choose among %s, or write only none")
	msgRoots          = i18n.Message("roots has %q; give addresses of folders such as file:///srv/notes, at most %d")
	msgPin            = i18n.Message("pin is %q; choose on or off")
	msgPatterns       = i18n.Message("%s has %d patterns; %d are the most, and * stands for anything")
	msgNoPattern      = i18n.Message("%s has an empty pattern; take it out, or write * for all tools")
)

// Validate returns the first error in the settings, with its remedy. The error contains no
// secret.
func (s *Settings) Validate() error {
	var where error
	switch s.transport() {
	case Stdio:
		where = errors.Join(s.checkCommand(), s.checkNoAPI())
	case HTTP, SSE:
		where = errors.Join(s.checkURL(), s.checkNoAPI())
	case OpenAPI:
		where = s.checkAPI()
	default:
		where = msgTransport.Errorf(s.Transport)
	}
	return errors.Join(where, s.checkNumbers(), s.checkPatterns())
}

// ValidateInbound is [Settings.Validate] for an inbound server, which has no address and no
// settings that belong to an address.
func (s *Settings) ValidateInbound() error {
	var where error
	if s.Transport != "" || s.URL != "" || s.Token != "" || s.hasClient() || len(s.Headers) > 0 || s.Command != "" ||
		len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != "" || s.checkNoAPI() != nil {
		where = msgDialsIn.Errorf()
	}
	return errors.Join(where, s.checkNumbers(), s.checkPatterns())
}

// transport returns the transport to try first.
func (s *Settings) transport() string {
	if s.Transport != "" {
		return s.Transport
	}
	if s.Command != "" {
		return Stdio
	}
	if s.Document != "" {
		return OpenAPI
	}
	if u, err := url.Parse(s.URL); err == nil && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/sse") {
		return SSE
	}
	return HTTP
}

func (s *Settings) checkURL() error {
	if s.Command != "" {
		return msgBoth.Errorf()
	}
	if strings.TrimSpace(s.URL) == "" {
		return msgNoURL.Errorf()
	}
	if _, err := settings.ParseAddress("url", s.URL, "https://example.com/mcp", "token"); err != nil {
		return err
	}
	if err := settings.CheckCredential("token", s.Token); err != nil {
		return err
	}
	if err := s.checkClient(); err != nil {
		return err
	}
	return settings.CheckHeaders(s.Headers, protocolHeaders...)
}

// protocolHeaders are set by the transport (MCP 2025-06-18, Streamable HTTP).
var protocolHeaders = []string{"accept", "last-event-id", "mcp-session-id", "mcp-protocol-version", "mcp-method",
	"mcp-name"}

func (s *Settings) checkCommand() error {
	switch {
	case s.URL != "":
		return msgBoth.Errorf()
	case strings.TrimSpace(s.Command) == "":
		return msgCommandMissing.Errorf()
	case s.Token != "" || len(s.Headers) > 0 || s.hasClient():
		return msgForWeb.Errorf()
	}
	for _, text := range append([]string{s.Command, s.Dir}, s.Args...) {
		if strings.ContainsRune(text, 0) {
			return msgZeroByte.Errorf()
		}
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return msgEnv.Errorf(name)
		}
	}
	return nil
}

func (s *Settings) checkNumbers() error {
	switch {
	case s.Pin != "" && s.Pin != "on" && s.Pin != pinOff:
		return msgPin.Errorf(s.Pin)
	case time.Duration(s.Timeout) > maxTimeout:
		return msgTimeout.Errorf(time.Duration(s.Timeout), maxTimeout)
	case s.Concurrent < 0 || s.Concurrent > maxConcurrent:
		return msgConcurrent.Errorf(s.Concurrent, maxConcurrent)
	case s.MaxTools < 0 || s.MaxTools > maxToolsLimit:
		return msgMaxTools.Errorf(s.MaxTools, maxToolsLimit)
	}
	return nil
}

func (s *Settings) checkPatterns() error {
	for _, kind := range s.Pass {
		if !slices.Contains(allPassing, kind) && (kind != "none" || len(s.Pass) > 1) {
			return msgPass.Errorf(kind, strings.Join(allPassing, ", "))
		}
	}
	if err := s.checkRoots(); err != nil {
		return err
	}
	for name, list := range map[string][]string{"allow": s.Allow, "deny": s.Deny} {
		if len(list) > maxPatterns {
			return msgPatterns.Errorf(name, len(list), maxPatterns)
		}
		if slices.Contains(list, "") {
			return msgNoPattern.Errorf(name)
		}
	}
	return nil
}

// SignsIn reports whether the owner may sign in to the server: no other credentials are set.
func (s *Settings) SignsIn() bool {
	for name := range s.Headers {
		if strings.EqualFold(name, "Authorization") {
			return false
		}
	}
	return s.Command == "" && s.Token == "" && s.transport() != OpenAPI
}

// MayHoldSecret reports whether the address or a header may say to the server who its owner is.
func (s *Settings) MayHoldSecret() bool {
	if _, query, _ := strings.Cut(s.URL, "?"); query != "" {
		return true
	}
	for name := range s.Headers {
		name = strings.ToLower(name)
		for _, word := range []string{"auth", "cookie", "key", "token", "secret", "session"} {
			if strings.Contains(name, word) {
				return true
			}
		}
	}
	return false
}

// passes returns what passes besides tools.
func (s *Settings) passes() passing {
	list := s.Pass
	if len(list) == 0 {
		list = allPassing
	}
	out := passing{}
	for _, kind := range list {
		out[kind] = true
	}
	return out
}

func (s *Settings) timeout() time.Duration {
	if s.Timeout == 0 {
		return DefaultTimeout
	}
	return time.Duration(s.Timeout)
}

func (s *Settings) concurrent() int {
	if s.Concurrent == 0 {
		return DefaultConcurrent
	}
	return s.Concurrent
}

func (s *Settings) maxTools() int {
	if s.MaxTools == 0 {
		return DefaultMaxTools
	}
	return s.MaxTools
}

// isAllowed reports whether the tool of that name is selected.
func (s *Settings) isAllowed(name string) bool {
	return !tool.MatchAny(s.Deny, name) && (len(s.Allow) == 0 || tool.MatchAny(s.Allow, name))
}

// DisplayAddress returns the address without its query, or the command without its arguments:
// the parts without secrets.
func (s *Settings) DisplayAddress() string {
	if s.Command != "" {
		return s.Command
	}
	address := s.URL
	if s.Document != "" {
		address = s.BaseURL
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// minSecretLength is the minimum length of a value that is redacted: redacting the "1" of
// DEBUG=1 would make every text unreadable.
const minSecretLength = 6

// secrets returns the texts that must not appear in logs and errors.
func (s *Settings) secrets() []string {
	list := append([]string{s.Token, s.ClientSecret, s.PrivateKey}, keyLines(s.PrivateKey)...)
	if _, password, ok := strings.Cut(s.Basic, ":"); ok {
		list = append(list, password, base64.StdEncoding.EncodeToString([]byte(s.Basic)))
	}
	for _, v := range s.Query {
		list = append(list, v, url.QueryEscape(v))
	}
	for _, v := range s.Headers {
		list = append(list, v)
		if _, credentials, ok := strings.Cut(v, " "); ok {
			list = append(list, credentials) // after "Bearer"
		}
	}
	for _, v := range s.Env {
		list = append(list, v)
	}
	if u, err := url.Parse(s.URL); err == nil {
		list = append(list, u.RawQuery)
		for _, values := range u.Query() {
			for _, v := range values {
				list = append(list, v, url.QueryEscape(v))
			}
		}
	}
	list = slices.DeleteFunc(list, func(v string) bool { return len(v) < minSecretLength && v != s.Token || v == "" })
	// Longest first: a secret within another must not leave parts of the longer one.
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(list)
}

// redactor returns a replacer that hides the secrets.
func (s *Settings) redactor() *strings.Replacer {
	var pairs []string
	for _, v := range s.secrets() {
		pairs = append(pairs, v, "[secret]")
		if quoted, err := json.Marshal(v); err == nil {
			if q := string(quoted[1 : len(quoted)-1]); q != v {
				pairs = append(pairs, q, "[secret]")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// environ returns the environment of a command.
func (s *Settings) environ(own []string) []string {
	var list []string
	for _, kv := range own {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(inheritedEnv, name) ||
			runtime.GOOS == "windows" && slices.Contains(inheritedEnvWindows, strings.ToUpper(name)) {
			list = append(list, kv)
		}
	}
	for name, value := range s.Env {
		list = append(list, name+"="+value)
	}
	return list
}

// inheritedEnv are the variables that a command inherits. All others may be secrets.
var (
	inheritedEnv        = []string{"PATH", "HOME", "LANG", "TMPDIR"}
	inheritedEnvWindows = []string{"PATH", "SYSTEMROOT", "USERPROFILE", "TEMP", "TMP"}
)
