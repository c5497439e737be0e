package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamAddCmd struct {
	Name        string   `arg:"" help:"Name of the upstream and prefix of its tools: 1 to 32 lowercase letters, digits and -."`
	Command     []string `arg:"" optional:"" help:"Command of an MCP server on standard input and output, with its arguments, after --."`
	URL         string   `name:"url" help:"URL of an MCP server." placeholder:"URL"`
	OpenAPI     string   `name:"openapi" help:"URL or file of an OpenAPI document (3.0 or 3.1), whose operations become tools." placeholder:"URL|FILE"`
	From        string   `help:"Name of a server in the registry, see patchbay upstream search; NAME@VERSION for another version than the newest." placeholder:"SERVER"`
	Way         int      `help:"Number of the way in which a server of --from is reached; the first that can be used otherwise." placeholder:"N"`
	Input       []string `help:"A value for a server of --from as name=value; name=@FILE reads it from a file. Repeatable." sep:"none" placeholder:"K=V"`
	Yes         bool     `short:"y" help:"Do not ask for confirmation of what --from would contact or run."`
	Endpoint    bool     `help:"Create an endpoint that a tool server connects to; its URL with a token is shown once."`
	Cloud       string   `help:"URL (wss://…) of a service that may call the tools of --tools; @FILE reads it from a file." placeholder:"URL"`
	Tools       []string `help:"Tools that the service of --cloud may call: names, or patterns with the wildcard *. Repeatable." placeholder:"PATTERN"`
	Token       string   `help:"Bearer token for --url or --openapi; @FILE reads it from a file (@- from standard input)." placeholder:"TOKEN"`
	Header      []string `help:"A request header for --url or --openapi; 'NAME: @FILE' reads its value from a file. Repeatable." sep:"none" placeholder:"NAME:VALUE"`
	Env         []string `help:"An environment variable of the command as name=value; name=@FILE reads the value from a file. Repeatable." sep:"none" placeholder:"K=V"`
	Set         []string `help:"Another setting as name=value. Repeatable." sep:"none" placeholder:"K=V"`
	NoCheck     bool     `help:"Save it without checking the server."`
	User        string   `help:"Owner of the upstream; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamAddCmd) Help() string {
	return `An upstream is an external tool server (MCP). Programs and bots of its owner can call its tools. The server is checked before it is saved. If the server wants you to sign in, it is saved, and patchbay upstream signin does that. Settings are allow and deny (tools by their names there), client_id and client_secret (if that server knows Patchbay by them), timeout, concurrent, max_tools, transport (http, sse, stdio or openapi), for a command dir, and for an OpenAPI document base_url (address of the API, if the document is elsewhere), query (a JSON object of query parameters, such as an API key) and basic (name:password). A command runs on the machine of the Patchbay server, as the same user; pass its secrets with --env, because its arguments are shown.

With --cloud, Patchbay connects to a service, and the service calls your tools. Only the tools of --tools are offered, including dangerous ones if they are named. Settings are deny and most (maximum number of tools, 32 by default).

Examples:

    patchbay upstream add weather --url https://mcp.example.com/mcp --token @token.txt
    patchbay upstream add notion --url https://mcp.notion.com/mcp
    patchbay upstream add files --set deny=delete_file -- npx -y @modelcontextprotocol/server-filesystem /srv/notes
    patchbay upstream add shop --openapi https://shop.example.com/openapi.json --token @token.txt --set 'deny=delete*'
    patchbay upstream add weather --from io.github.somebody/weather --input api_key=@key.txt
    patchbay upstream add robot --endpoint
    patchbay upstream add xiaozhi --cloud @address.txt --tools 'lamp_*' --tools weather_now`
}

// upstreamAdded is the result of adding an upstream.
type upstreamAdded struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Token string `json:"token,omitempty"`
	// URL is what a tool server connects to, with the token.
	URL   string                 `json:"url,omitempty"`
	Found *control.UpstreamFound `json:"found,omitempty"`
}

const (
	msgUpstreamAdded = i18n.Message("The upstream %s is added; the names of its tools begin with %s_.")
	msgSignInNow     = i18n.Message("It wants you to sign in: patchbay upstream signin %s%s")
	msgTakenUp       = i18n.Message("A running server connects to it within seconds.")
	msgEndpointURL   = i18n.Message("Give this address to the tool server (it contains the token; save it now, it is shown only once):")
	msgCloudAdded    = i18n.Message("The upstream %s is added. From now on the service at %s can call these tools: %s. To end that: patchbay upstream rm %s%s")
)

// Run adds the upstream.
func (c *upstreamAddCmd) Run(ctx context.Context, sh *shell) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	kind, settings, err := c.settings(sh)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		if c.From != "" {
			if settings, err = c.fromRegistry(ctx, sh, at); err != nil {
				return err
			}
		}
		added, err := api.AddUpstream.Call(ctx, at.Client, control.NewUpstream{Name: c.Name, Kind: kind,
			Settings: settings, Unchecked: c.NoCheck, User: c.User})
		if e, ok := errors.AsType[*api.ServerError](err); ok && e.Status == http.StatusServiceUnavailable {
			return i18n.Message("%v Use --no-check to save it anyway").Errorf(err)
		}
		if err != nil {
			return err
		}
		out := upstreamAdded{ID: added.ID, Name: added.Name, Kind: added.Kind, Token: added.Token, Found: added.Found}
		if out.Token != "" {
			out.URL = at.endpointURL(ctx, out.Token)
		}
		return sh.result(out, func() { c.show(ctx, sh, at, out) })
	})
}

// checkFlags rejects flags that exclude each other.
func (c *upstreamAddCmd) checkFlags() error {
	ways := 0
	for _, given := range []bool{c.URL != "", c.OpenAPI != "", c.From != "", len(c.Command) > 0, c.Endpoint,
		c.Cloud != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return usage(i18n.Message("give exactly one of --url URL, --openapi URL, --from SERVER, -- COMMAND, --endpoint and --cloud URL"))
	case c.URL == "" && c.OpenAPI == "" && (c.Token != "" || len(c.Header) > 0):
		return usage(i18n.Message("--token and --header require --url or --openapi; pass secrets to a command with --env"))
	case c.From == "" && (c.Way != 0 || len(c.Input) > 0 || c.Yes):
		return usage(i18n.Message("--way, --input and --yes require --from"))
	case len(c.Command) == 0 && len(c.Env) > 0:
		return usage(i18n.Message("--env requires a command"))
	case c.Cloud == "" && len(c.Tools) > 0:
		return usage(i18n.Message("--tools requires --cloud; use --set allow=… to choose tools of a server"))
	case c.Cloud != "" && len(c.Tools) == 0:
		return usage(i18n.Message("--tools is missing: list the tools that the service may call, such as --tools 'lamp_*'"))
	}
	return nil
}

// settings returns the kind of the upstream and its settings.
func (c *upstreamAddCmd) settings(sh *shell) (kind string, set control.SettingTexts, err error) {
	set = control.SettingTexts{}
	put := func(name string, value any, given bool) {
		if given {
			set[name] = control.SettingText(value)
		}
	}
	others, err := sh.pairs(c.Set)
	if err != nil {
		return "", nil, err
	}
	switch {
	case c.Endpoint:
		kind = control.KindDialsIn
	case c.Cloud != "":
		kind = control.KindCloud
		address, err := sh.value(c.Cloud)
		if err != nil {
			return "", nil, fmt.Errorf("--cloud: %w", err)
		}
		put("url", address, true)
		put("allow", c.Tools, true)
	default:
		kind = control.KindServer
		token, err := sh.value(c.Token)
		if err != nil {
			return "", nil, fmt.Errorf("--token: %w", err)
		}
		headers, err := sh.headers(c.Header)
		if err != nil {
			return "", nil, err
		}
		env, err := sh.pairs(c.Env)
		if err != nil {
			return "", nil, err
		}
		put("url", c.URL, c.URL != "")
		if err := c.putDocument(set); err != nil {
			return "", nil, err
		}
		if len(c.Command) > 0 {
			put("command", c.Command[0], true)
			put("args", c.Command[1:], len(c.Command) > 1)
		}
		put("token", token, token != "")
		put("headers", headers, len(headers) > 0)
		put("env", env, len(env) > 0)
	}
	maps.Copy(set, others)
	return kind, set, nil
}

// maxDocument is a little more than the server takes, so that it says what is too much.
const maxDocument = 2<<20 + 1

// putDocument sets the OpenAPI document: its address, or the text of a file.
func (c *upstreamAddCmd) putDocument(set control.SettingTexts) error {
	if c.OpenAPI == "" {
		return nil
	}
	set["transport"] = "openapi"
	if strings.HasPrefix(c.OpenAPI, "http://") || strings.HasPrefix(c.OpenAPI, "https://") {
		set["url"] = c.OpenAPI
		return nil
	}
	f, err := os.Open(c.OpenAPI)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDocument))
	set["document"] = string(text)
	return err
}

// headers parses headers given as "name: value".
func (sh *shell) headers(texts []string) (map[string]string, error) {
	headers := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usage(i18n.Message("--header must have the form 'X-API-Key: value'"))
		}
		value, err := sh.value(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("--header %s: %w", name, err)
		}
		headers[name] = value
	}
	return headers, nil
}

func (c *upstreamAddCmd) show(ctx context.Context, sh *shell, at *conn, added upstreamAdded) {
	if added.Found != nil && !added.Found.NeedsSignIn {
		sh.showFound(added.Found)
	}
	switch added.Kind {
	case control.KindCloud:
		// Without an answer it is added all the same.
		d, _ := api.ShowUpstream.Call(ctx, at.Client, control.UpstreamOf{Upstream: added.ID})
		sh.say(msgCloudAdded, c.Name, d.Where, join(c.Tools), c.Name, c.retryFlags())
	case control.KindDialsIn:
		sh.say(msgUpstreamAdded, c.Name, c.Name)
		sh.say(msgEndpointURL)
		sh.printf("  %s\n", added.URL)
	default:
		sh.say(msgUpstreamAdded, c.Name, c.Name)
		if added.Found != nil && added.Found.NeedsSignIn {
			sh.say(msgSignInNow, c.Name, c.retryFlags())
			return
		}
		sh.say(msgTakenUp)
	}
}
