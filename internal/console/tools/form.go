package tools

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/problem"
)

// Kinds of connections for tools, each with a form of its own.
const (
	byURL      = "url"
	byAPI      = "openapi"
	byCommand  = "command"
	byEndpoint = "endpoint"
	byCloud    = "cloud"
)

// serverForm holds the submitted form of a server, without secrets.
type serverForm struct {
	ID             int64 // 0 means a new one
	Way            string
	Name           string
	URL            string
	HasHiddenQuery bool // the stored URL has a query, which is not shown
	Transport      string
	Document       string // a new one
	DocumentKept   string // says how large the stored one is
	BaseURL        string
	ClientID       string
	OAuthGrant     string // empty: a person signs in
	KeyID, Scope   string
	Command        string
	Args           string // one per line
	Dir            string
	Allow          string // one per line
	Deny           string
	Timeout        string // in seconds
	Concurrent     string
	MaxTools       string
	Pass, Roots    string
	Pin            string // off: changes need no approval
	MaxResult      string
	Unchecked      bool
	// Stored values that are not shown: whether there is a token, and the names of headers and
	// variables.
	HasToken, HasClientSecret bool
	HasPrivateKey             bool
	HasBasic                  bool
	Headers, EnvKept, Query   []string

	Wrong string
	Found *control.UpstreamFound
}

func (f *serverForm) kind() string {
	switch f.Way {
	case byEndpoint:
		return control.KindDialsIn
	case byCloud:
		return control.KindCloud
	}
	return control.KindServer
}

// base returns the path that the forms are sent to.
func (f *serverForm) base() string {
	if f.ID == 0 {
		return "/tools/upstreams"
	}
	return upstreamURL(f.ID)
}

func (f *serverForm) action() string {
	if f.ID == 0 {
		return f.base()
	}
	return f.base() + "/change"
}

func (f *serverForm) canCheck() bool { return f.Way == byURL || f.Way == byAPI || f.Way == byCommand }

// settings collects the settings of a form.
type settings struct {
	set   control.SettingTexts
	wrong error
}

// put sets a setting, or removes it if given is false.
func (s *settings) put(name string, value any, given bool) {
	s.set[name] = ""
	if given {
		s.set[name] = control.SettingText(value)
	}
}

// lines returns the non-empty lines of a field.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func (s *settings) list(name, text string) {
	list := lines(text)
	s.put(name, list, len(list) > 0)
}

// number sets an optional number.
func (s *settings) number(name, text string, value func(int) any) {
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < 1) {
		s.wrong = problem.New(problem.Invalid, msgNumber, text)
		return
	}
	s.put(name, value(n), text != "")
}

// pairs sets named secrets, one per line. An empty field keeps the stored ones, unless forget is
// set.
func (s *settings) pairs(name, text, between string, forget bool) {
	list := lines(text)
	if len(list) == 0 {
		if forget {
			s.put(name, nil, false)
		}
		return
	}
	values := map[string]string{}
	for _, line := range list {
		key, value, ok := strings.Cut(line, between)
		if key = strings.TrimSpace(key); !ok || key == "" {
			s.wrong = problem.New(problem.Invalid, msgPairs, between)
			return
		}
		values[key] = strings.TrimSpace(value)
	}
	s.put(name, values, true)
}

// readServerForm reads a form, and returns it with the settings that it stands for.
func readServerForm(v *page.Visit, way string) (f serverForm, set control.SettingTexts, err error) {
	text := func(name string) string { return strings.TrimSpace(v.FormValue(name)) }
	f = serverForm{
		Way: way, Name: text("name"), URL: text("url"), Transport: text("transport"), Command: text("command"),
		ClientID: text("client_id"), OAuthGrant: text("oauth_grant"), KeyID: text("key_id"),
		Scope: text("oauth_scope"), Document: text("document"), BaseURL: text("base_url"),
		Args: v.FormValue("args"), Dir: text("dir"),
		Allow: v.FormValue("allow"), Deny: v.FormValue("deny"), Timeout: text("timeout"),
		Concurrent: text("concurrent"), MaxTools: text("max_tools"),
		Pass: v.FormValue("pass"), Roots: v.FormValue("roots"), Pin: v.FormValue("pin"),
		MaxResult: text("most"), Unchecked: v.FormValue("unchecked") != "",
	}
	s := settings{set: control.SettingTexts{}}
	number := func(n int) any { return n }
	s.list("deny", f.Deny)
	s.list("allow", f.Allow)
	if way != byCloud {
		s.number("timeout", f.Timeout, func(n int) any { return strconv.Itoa(n) + "s" })
		s.number("concurrent", f.Concurrent, number)
		s.number("max_tools", f.MaxTools, number)
		s.list("pass", f.Pass)
		s.list("roots", f.Roots)
		s.put("pin", f.Pin, f.Pin != "")
	}
	address := func() {
		if f.URL != "" { // a stored URL stays if the field is empty
			s.put("url", f.URL, true)
		}
	}
	switch way {
	case byURL:
		address()
		s.put("transport", f.Transport, f.Transport != "")
		if token := text("token"); token != "" || v.FormValue("untoken") != "" {
			s.put("token", token, token != "")
		}
		s.put("client_id", f.ClientID, f.ClientID != "")
		if secret := text("client_secret"); secret != "" || v.FormValue("unclient") != "" {
			s.put("client_secret", secret, secret != "")
		}
		s.put("oauth_grant", f.OAuthGrant, f.OAuthGrant != "")
		s.put("key_id", f.KeyID, f.KeyID != "")
		s.put("oauth_scope", f.Scope, f.Scope != "")
		if key := text("private_key"); key != "" || v.FormValue("unkey") != "" {
			s.put("private_key", key, key != "")
		}
		s.pairs("headers", v.FormValue("headers"), ":", v.FormValue("unheader") != "")
	case byAPI:
		address()
		s.readAPI(v, &f)
	case byCommand:
		s.put("command", f.Command, f.Command != "")
		s.list("args", f.Args)
		s.put("dir", f.Dir, f.Dir != "")
		s.pairs("env", v.FormValue("env"), "=", v.FormValue("unenv") != "")
	case byCloud:
		address()
		s.number("most", f.MaxResult, number)
	}
	return f, s.set, s.wrong
}

// readAPI reads the settings of an API with an OpenAPI document.
func (s *settings) readAPI(v *page.Visit, f *serverForm) {
	s.put("transport", byAPI, true)
	if f.Document != "" { // a stored document stays if the field is empty
		s.put("document", f.Document, true)
	}
	if f.ID != 0 || f.BaseURL != "" {
		s.put("base_url", f.BaseURL, f.BaseURL != "")
	}
	for field, forget := range map[string]string{"token": "untoken", "basic": "unbasic"} {
		if secret := strings.TrimSpace(v.FormValue(field)); secret != "" || v.FormValue(forget) != "" {
			s.put(field, secret, secret != "")
		}
	}
	s.pairs("headers", v.FormValue("headers"), ":", v.FormValue("unheader") != "")
	s.pairs("query", v.FormValue("query"), "=", v.FormValue("unquery") != "")
}

// way returns the kind of connection of a form for a new server.
func way(v *page.Visit) string {
	switch w := v.FormValue("way"); w {
	case byCommand:
		if v.IsAdmin() {
			return w
		}
	case byURL, byAPI, byEndpoint, byCloud:
		return w
	}
	return ""
}

func newUpstream(v *page.Visit) {
	if w := way(v); w != "" {
		v.Render(http.StatusOK, formPage(v, &serverForm{Way: w}))
		return
	}
	v.Render(http.StatusOK, waysPage(v))
}

// showUpstreamForm shows a form with its error.
func showUpstreamForm(v *page.Visit, f *serverForm, err error) {
	var status int
	if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
		v.Render(status, formPage(v, f))
	}
}

func addUpstream(v *page.Visit) {
	w := way(v)
	if w == "" {
		v.Redirect("/tools/upstreams/new")
		return
	}
	f, set, err := readServerForm(v, w)
	var added control.AddedUpstream
	if err == nil {
		added, err = v.Instance.Control.AddUpstream(v.Context(), v.Caller(),
			control.NewUpstream{Name: f.Name, Kind: f.kind(), Settings: set, Unchecked: f.Unchecked})
	}
	if err != nil {
		showUpstreamForm(v, &f, err)
		return
	}
	if added.Token == "" {
		v.Redirect(upstreamURL(added.ID))
		return
	}
	// Only this response shows the token.
	d, err := v.Instance.Control.ShowUpstream(v.Context(), v.Caller(), control.UpstreamOf{Upstream: added.ID})
	if err != nil {
		v.Fail(err)
		return
	}
	showUpstream(v, &d, added.Token)
}

func checkNew(v *page.Visit) {
	w := way(v)
	if w == "" {
		v.Redirect("/tools/upstreams/new")
		return
	}
	f, set, err := readServerForm(v, w)
	runCheck(v, &f, err, func(ctx context.Context) (control.UpstreamFound, error) {
		return v.Instance.Control.CheckNewUpstream(ctx, v.Caller(),
			control.NewUpstream{Name: f.Name, Kind: f.kind(), Settings: set})
	})
}

func checkChanged(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	kept := newServerForm(&d)
	f, set, err := readServerForm(v, kept.Way)
	f.keepSecrets(&kept)
	runCheck(v, &f, err, func(ctx context.Context) (control.UpstreamFound, error) {
		return v.Instance.Control.CheckUpstream(ctx, v.Caller(),
			control.UpstreamChange{Upstream: d.Number, Settings: set})
	})
}

// runCheck checks the connection to a server, and shows that it is being checked.
func runCheck(v *page.Visit, f *serverForm, err error, check func(context.Context) (control.UpstreamFound, error)) {
	see := func(ctx context.Context) {
		var found control.UpstreamFound
		if err == nil {
			found, err = check(ctx)
		}
		if err != nil {
			f.Wrong, _ = v.Wrong(err)
			return
		}
		f.Found = &found
	}
	if !v.IsPartial() {
		see(v.Context())
		v.Render(http.StatusOK, formPage(v, f))
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		if err := send(checkingPart(v)); err != nil {
			return err
		}
		see(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return send(foundPart(v, f))
	})
}

// newServerForm returns the form of a stored server.
func newServerForm(d *control.UpstreamDetail) serverForm {
	var kept struct {
		Transport, URL, Token, Command, Dir, Timeout string
		Pin                                          string
		Headers, Env                                 map[string]string
		Args, Allow, Deny, Pass, Roots               []string
		Concurrent, Most                             int
		MaxTools                                     int `json:"max_tools"`
		ClientID, ClientSecret                       string
		OAuthGrant, PrivateKey, KeyID, Scope         string
		Document, BaseURL, Basic                     string
		Query                                        map[string]string
	}
	for name, into := range map[string]any{
		"transport": &kept.Transport, "url": &kept.URL, "token": &kept.Token, "command": &kept.Command,
		"dir": &kept.Dir, "timeout": &kept.Timeout,
		"headers": &kept.Headers, "env": &kept.Env, "args": &kept.Args, "allow": &kept.Allow, "deny": &kept.Deny, "pass": &kept.Pass,
		"pin": &kept.Pin, "roots": &kept.Roots,
		"document": &kept.Document, "base_url": &kept.BaseURL, "basic": &kept.Basic, "query": &kept.Query,
		"client_id": &kept.ClientID, "client_secret": &kept.ClientSecret, "oauth_grant": &kept.OAuthGrant,
		"private_key": &kept.PrivateKey, "key_id": &kept.KeyID, "oauth_scope": &kept.Scope,
		"concurrent": &kept.Concurrent, "max_tools": &kept.MaxTools, "most": &kept.Most,
	} {
		if raw := d.Settings[name]; raw != nil {
			json.Unmarshal(raw, into) //nolint:errcheck // invalid values are shown as empty
		}
	}
	f := serverForm{
		ID: d.Number, Name: d.Slug, Way: byURL, URL: kept.URL, Transport: kept.Transport, Command: kept.Command,
		Dir:  kept.Dir,
		Args: strings.Join(kept.Args, "\n"), Allow: strings.Join(kept.Allow, "\n"), Deny: strings.Join(kept.Deny, "\n"),
		Timeout: seconds(kept.Timeout), Concurrent: orEmpty(kept.Concurrent), MaxTools: orEmpty(kept.MaxTools),
		Pass: strings.Join(kept.Pass, "\n"), Roots: strings.Join(kept.Roots, "\n"), Pin: kept.Pin,
		MaxResult: orEmpty(kept.Most),
		ClientID:  kept.ClientID, HasClientSecret: kept.ClientSecret != "", OAuthGrant: kept.OAuthGrant,
		HasPrivateKey: kept.PrivateKey != "", KeyID: kept.KeyID, Scope: kept.Scope,
		DocumentKept: kept.Document, BaseURL: kept.BaseURL, HasBasic: kept.Basic != "", Query: names(kept.Query),
		HasToken: kept.Token != "", Headers: names(kept.Headers), EnvKept: names(kept.Env),
	}
	switch {
	case d.Kind == control.KindDialsIn:
		f.Way = byEndpoint
	case d.Kind == control.KindCloud:
		f.Way = byCloud
	case kept.Command != "":
		f.Way = byCommand
	case kept.Transport == byAPI || kept.Document != "":
		f.Way = byAPI
	}
	if head, _, hidden := strings.Cut(f.URL, "?"); hidden {
		f.URL, f.HasHiddenQuery, d.Where = "", true, head
	}
	return f
}

func editUpstream(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	f := newServerForm(&d)
	v.Render(http.StatusOK, formPage(v, &f))
}

// keepSecrets copies the stored values that the form does not contain.
func (f *serverForm) keepSecrets(was *serverForm) {
	f.ID, f.Name, f.HasHiddenQuery, f.HasToken, f.HasClientSecret, f.Headers, f.EnvKept = was.ID, was.Name,
		was.HasHiddenQuery, was.HasToken, was.HasClientSecret, was.Headers, was.EnvKept
	f.HasBasic, f.Query, f.DocumentKept = was.HasBasic, was.Query, was.DocumentKept
}

func changeUpstream(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	was := newServerForm(&d)
	f, set, err := readServerForm(v, was.Way)
	f.keepSecrets(&was)
	if err == nil {
		d, err = v.Instance.Control.ChangeUpstream(v.Context(), v.Caller(),
			control.UpstreamChange{Upstream: d.Number, Settings: set})
	}
	if err != nil {
		showUpstreamForm(v, &f, err)
		return
	}
	if d.Notice != "" { // the notice is about this change, so only this response shows it
		showUpstream(v, &d, "")
		return
	}
	v.Redirect(upstreamURL(d.Number))
}
