package mcpregistry

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxVersion = 255
	// maxText limits a text of an entry for people, in bytes; the format has 100 letters.
	maxText = 500
	// maxParts limits the ways of an entry, and the values and inputs of each.
	maxParts = 50
	// maxValue limits a value of an entry, in bytes.
	maxValue = 2000
)

// entry is a server of a response (openapi.yaml, ServerResponse).
type entry struct {
	Server struct {
		Name        string `json:"name"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
		Website     string `json:"websiteUrl"`
		Repository  struct {
			URL string `json:"url"`
		} `json:"repository"`
		Packages []pack   `json:"packages"`
		Remotes  []remote `json:"remotes"`
	} `json:"server"`
	Meta struct {
		Official struct {
			Status  string `json:"status"`
			Message string `json:"statusMessage"`
		} `json:"io.modelcontextprotocol.registry/official"`
	} `json:"_meta"`
}

// input is a value that is fixed, or that people give (openapi.yaml, Input).
type input struct {
	Description string           `json:"description"`
	Required    bool             `json:"isRequired"`
	Secret      bool             `json:"isSecret"`
	Value       string           `json:"value"`
	Default     string           `json:"default"`
	Placeholder string           `json:"placeholder"`
	Choices     []string         `json:"choices"`
	Variables   map[string]input `json:"variables"`
}

// named is a header or a variable of the environment.
type named struct {
	input
	Name string `json:"name"`
}

type argument struct {
	input
	Type      string `json:"type"` // positional or named
	Name      string `json:"name"`
	ValueHint string `json:"valueHint"`
}

type remote struct {
	Type      string           `json:"type"` // streamable-http, sse or stdio
	URL       string           `json:"url"`
	Headers   []named          `json:"headers"`
	Variables map[string]input `json:"variables"`
}

type pack struct {
	Type        string     `json:"registryType"`
	BaseURL     string     `json:"registryBaseUrl"`
	Identifier  string     `json:"identifier"`
	Version     string     `json:"version"`
	Hint        string     `json:"runtimeHint"`
	Transport   remote     `json:"transport"`
	RuntimeArgs []argument `json:"runtimeArguments"`
	PackageArgs []argument `json:"packageArguments"`
	Environment []named    `json:"environmentVariables"`
}

// Server is a server of a registry.
type Server struct {
	// Name is its full name; the part before the slash is the namespace of its publisher.
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Website     string `json:"website,omitempty"`
	Repository  string `json:"repository,omitempty"`
	// Status is active, deprecated or deleted, with a reason.
	Status       string `json:"status,omitempty"`
	StatusReason string `json:"status_reason,omitempty"`
	// Ways are the ways in which it can be reached or run.
	Ways []Way `json:"ways"`
}

// Publisher returns the namespace of the publisher.
func (s *Server) Publisher() string {
	publisher, _, _ := strings.Cut(s.Name, "/")
	return publisher
}

var serverName = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

func isServerName(name string) bool { return len(name) <= 200 && serverName.MatchString(name) }

// server returns the server of an entry, and false if the entry cannot be used.
func (e *entry) server() (Server, bool) {
	in := &e.Server
	s := Server{Name: in.Name, Title: line(in.Title), Description: line(in.Description),
		Version: clip(line(in.Version), maxVersion), Website: line(in.Website), Repository: line(in.Repository.URL),
		Status: line(e.Meta.Official.Status), StatusReason: line(e.Meta.Official.Message), Ways: []Way{}}
	for i := range in.Remotes[:min(len(in.Remotes), maxParts)] {
		s.Ways = append(s.Ways, in.Remotes[i].way())
	}
	for i := range in.Packages[:min(len(in.Packages), maxParts)] {
		s.Ways = append(s.Ways, in.Packages[i].way())
	}
	return s, isServerName(in.Name)
}

// line returns a text of a stranger as one short line.
func line(text string) string {
	return clip(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " "), maxText)
}

func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// headerName is a token (RFC 9110 §5.6.2).
var headerName = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,200}$")

// way returns the way to a server on the web.
func (r *remote) way() Way {
	b := builder{way: Way{Kind: Remote}}
	switch r.Type {
	case "streamable-http":
		b.way.Transport = "http"
	case "sse":
		b.way.Transport = "sse"
	default:
		b.refuse(UnknownTransport, r.Type)
	}
	b.way.URL = b.template(r.URL, r.Variables)
	for _, h := range r.Headers {
		if !headerName.MatchString(h.Name) {
			b.refuse(BadHeader, h.Name)
		}
		b.way.Headers = append(b.way.Headers, Named{h.Name, b.value(h.Name, &h.input)})
	}
	return b.finish()
}

// runners are the programs that run a package, by the type of its registry.
var runners = map[string]struct {
	command string
	base    []string // addresses of the package registry itself
	version string   // between name and version
}{
	"npm":   {"npx", []string{"", "https://registry.npmjs.org"}, "@"},
	"pypi":  {"uvx", []string{"", "https://pypi.org"}, "@"},
	"oci":   {"docker", []string{"", "https://docker.io"}, ":"},
	"nuget": {"dnx", []string{"", "https://api.nuget.org/v3/index.json", "https://api.nuget.org"}, "@"},
}

// packageName is what names of packages and images are made of; none begins with a dash.
var (
	packageName    = regexp.MustCompile(`^[a-zA-Z0-9@][a-zA-Z0-9@:._/-]*$`)
	packageVersion = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.+_-]*$`)
)

// way returns the way to run a package.
func (p *pack) way() Way {
	b := builder{way: Way{Kind: clip(line(p.Type), 40), Package: clip(line(p.Identifier), maxText), Transport: "stdio"}}
	run, known := runners[p.Type]
	full := p.Identifier
	if p.Version != "" {
		full += run.version + p.Version
	}
	switch {
	case !known:
		b.refuse(UnknownPackage, p.Type)
	case p.Transport.Type != "stdio" && p.Transport.Type != "":
		b.refuse(OwnServer, p.Transport.Type)
	case !slices.Contains(run.base, strings.TrimRight(p.BaseURL, "/")):
		b.refuse(OtherPackages, p.BaseURL)
	case p.Hint != "" && p.Hint != run.command:
		b.refuse(OtherRunner, p.Hint)
	case !packageName.MatchString(p.Identifier) || p.Version != "" && !packageVersion.MatchString(p.Version):
		b.refuse(BadPackage, full)
	}
	if b.way.Reason != "" {
		return b.finish()
	}
	b.way.Command = run.command
	switch run.command {
	case "npx":
		b.fixed("-y")
	case "docker":
		b.fixed("run", "-i", "--rm")
		for _, v := range p.Environment {
			b.fixed("-e", v.Name)
		}
	}
	before := len(b.way.Args)
	b.arguments(p.RuntimeArgs)
	if run.command == "docker" {
		b.runtime = slices.Clone(b.way.Args[before:])
	}
	b.fixed(full)
	if run.command == "dnx" {
		b.fixed("--yes", "--")
	}
	b.arguments(p.PackageArgs)
	for _, v := range p.Environment {
		b.way.Env = append(b.way.Env, Named{v.Name, b.value(v.Name, &v.input)})
	}
	return b.finish()
}
