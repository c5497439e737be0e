package tools

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// The ways in which tools come, or go, each with a form of its own.
const (
	byURL      = "url"
	byCommand  = "command"
	byEndpoint = "endpoint"
	byCloud    = "cloud"
)

// serverForm is what was typed about a server, but for secrets.
type serverForm struct {
	ID         int64 // 0: a new one
	Way        string
	Name       string
	URL        string
	Hidden     bool // the address that is kept has something behind its ?, which is not shown
	Transport  string
	Command    string
	Args       string // one on each line
	Dir        string
	Allow      string // one on each line
	Deny       string
	Timeout    string // in seconds
	Concurrent string
	MaxTools   string
	Most       string
	Unchecked  bool
	// What is kept and not shown: whether there is a token, and the names of headers and
	// variables.
	Tokened          bool
	Headers, EnvKept []string

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

// base is where its forms are sent to.
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

func (f *serverForm) looks() bool { return f.Way == byURL || f.Way == byCommand }

// settings gathers the settings of a form.
type settings struct {
	set   map[string]json.RawMessage
	wrong error
}

// put sets a setting, or takes it away if it is not given.
func (s *settings) put(name string, value any, given bool) {
	s.set[name] = json.RawMessage("null")
	if given {
		s.set[name], _ = json.Marshal(value)
	}
}

// lines are the lines of a field that are not empty.
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

// number puts a number, which may be left out.
func (s *settings) number(name, text string, value func(int) any) {
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < 1) {
		s.wrong = control.Fail(control.Invalid, sayNumber, text)
		return
	}
	s.put(name, value(n), text != "")
}

// pairs puts secrets that have names, which are typed a line each and kept if nothing is.
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
			s.wrong = control.Fail(control.Invalid, sayPairs, between)
			return
		}
		values[key] = strings.TrimSpace(value)
	}
	s.put(name, values, true)
}

// typed reads a form, and the settings that it makes.
func typed(v *page.Visit, way string) (f serverForm, set map[string]json.RawMessage, err error) {
	text := func(name string) string { return strings.TrimSpace(v.FormValue(name)) }
	f = serverForm{
		Way: way, Name: text("name"), URL: text("url"), Transport: text("transport"), Command: text("command"), Args: v.FormValue("args"), Dir: text("dir"),
		Allow: v.FormValue("allow"), Deny: v.FormValue("deny"), Timeout: text("timeout"), Concurrent: text("concurrent"), MaxTools: text("max_tools"),
		Most: text("most"), Unchecked: v.FormValue("unchecked") != "",
	}
	s := settings{set: map[string]json.RawMessage{}}
	number := func(n int) any { return n }
	s.list("deny", f.Deny)
	s.list("allow", f.Allow)
	if way != byCloud {
		s.number("timeout", f.Timeout, func(n int) any { return strconv.Itoa(n) + "s" })
		s.number("concurrent", f.Concurrent, number)
		s.number("max_tools", f.MaxTools, number)
	}
	address := func() {
		if f.URL != "" { // one that is kept stays if nothing is typed
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
		s.pairs("headers", v.FormValue("headers"), ":", v.FormValue("unheader") != "")
	case byCommand:
		s.put("command", f.Command, f.Command != "")
		s.list("args", f.Args)
		s.put("dir", f.Dir, f.Dir != "")
		s.pairs("env", v.FormValue("env"), "=", v.FormValue("unenv") != "")
	case byCloud:
		address()
		s.number("most", f.Most, number)
	}
	return f, s.set, s.wrong
}

// way is the way that a form for a new server is about.
func way(v *page.Visit) string {
	switch w := v.FormValue("way"); w {
	case byCommand:
		if v.Admin() {
			return w
		}
	case byURL, byEndpoint, byCloud:
		return w
	}
	return ""
}

func newUpstream(v *page.Visit) {
	if w := way(v); w != "" {
		v.Show(http.StatusOK, formPage(v, &serverForm{Way: w}))
		return
	}
	v.Show(http.StatusOK, waysPage(v))
}

// again shows a form with what is wrong.
func again(v *page.Visit, f *serverForm, err error) {
	var status int
	if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
		v.Show(status, formPage(v, f))
	}
}

func addUpstream(v *page.Visit) {
	w := way(v)
	if w == "" {
		v.To("/tools/upstreams/new")
		return
	}
	f, set, err := typed(v, w)
	var added control.AddedUpstream
	if err == nil {
		added, err = v.House.Control.AddUpstream(v.Context(), v.Caller(), control.NewUpstream{Name: f.Name, Kind: f.kind(), Settings: set, Unchecked: f.Unchecked})
	}
	if err != nil {
		again(v, &f, err)
		return
	}
	if added.Token == "" {
		v.To(upstreamURL(added.ID))
		return
	}
	// The token is shown by this answer alone.
	d, err := v.House.Control.ShowUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: added.ID})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, upstreamView(v, &d, added.Token))
}

func lookAtNew(v *page.Visit) {
	w := way(v)
	if w == "" {
		v.To("/tools/upstreams/new")
		return
	}
	f, set, err := typed(v, w)
	look(v, &f, err, func(ctx context.Context) (control.UpstreamFound, error) {
		return v.House.Control.CheckNewUpstream(ctx, v.Caller(), control.NewUpstream{Name: f.Name, Kind: f.kind(), Settings: set})
	})
}

func lookAtChanged(v *page.Visit) {
	d, err := theUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	kept := formOf(&d)
	f, set, err := typed(v, kept.Way)
	f.keep(&kept)
	look(v, &f, err, func(ctx context.Context) (control.UpstreamFound, error) {
		return v.House.Control.CheckUpstream(ctx, v.Caller(), control.UpstreamChange{Upstream: d.Number, Settings: set})
	})
}

// look looks at a server, and says meanwhile that it does.
func look(v *page.Visit, f *serverForm, err error, check func(context.Context) (control.UpstreamFound, error)) {
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
	if !v.Partial() {
		see(v.Context())
		v.Show(http.StatusOK, formPage(v, f))
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		if err := send(lookingPart(v)); err != nil {
			return err
		}
		see(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return send(foundPart(v, f))
	})
}

// formOf is the form of a server as it is kept.
func formOf(d *control.UpstreamDetail) serverForm {
	var kept struct {
		Transport, URL, Token, Command, Dir, Timeout string
		Headers, Env                                 map[string]string
		Args, Allow, Deny                            []string
		Concurrent, Most                             int
		MaxTools                                     int `json:"max_tools"`
	}
	for name, into := range map[string]any{
		"transport": &kept.Transport, "url": &kept.URL, "token": &kept.Token, "command": &kept.Command, "dir": &kept.Dir, "timeout": &kept.Timeout,
		"headers": &kept.Headers, "env": &kept.Env, "args": &kept.Args, "allow": &kept.Allow, "deny": &kept.Deny,
		"concurrent": &kept.Concurrent, "max_tools": &kept.MaxTools, "most": &kept.Most,
	} {
		if raw := d.Settings[name]; raw != nil {
			json.Unmarshal(raw, into) //nolint:errcheck // what cannot be read is shown as empty
		}
	}
	f := serverForm{
		ID: d.Number, Name: d.Slug, Way: byURL, URL: kept.URL, Transport: kept.Transport, Command: kept.Command, Dir: kept.Dir,
		Args: strings.Join(kept.Args, "\n"), Allow: strings.Join(kept.Allow, "\n"), Deny: strings.Join(kept.Deny, "\n"),
		Timeout: seconds(kept.Timeout), Concurrent: some(kept.Concurrent), MaxTools: some(kept.MaxTools), Most: some(kept.Most),
		Tokened: kept.Token != "", Headers: names(kept.Headers), EnvKept: names(kept.Env),
	}
	switch {
	case d.Kind == control.KindDialsIn:
		f.Way = byEndpoint
	case d.Kind == control.KindCloud:
		f.Way = byCloud
	case kept.Command != "":
		f.Way = byCommand
	}
	if head, _, hidden := strings.Cut(f.URL, "?"); hidden {
		f.URL, f.Hidden, d.Where = "", true, head
	}
	return f
}

func editUpstream(v *page.Visit) {
	d, err := theUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	f := formOf(&d)
	v.Show(http.StatusOK, formPage(v, &f))
}

// keep takes over from the form as it was what is not typed into it.
func (f *serverForm) keep(was *serverForm) {
	f.ID, f.Name, f.Hidden, f.Tokened, f.Headers, f.EnvKept = was.ID, was.Name, was.Hidden, was.Tokened, was.Headers, was.EnvKept
}

func changeUpstream(v *page.Visit) {
	d, err := theUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	was := formOf(&d)
	f, set, err := typed(v, was.Way)
	f.keep(&was)
	if err == nil {
		d, err = v.House.Control.ChangeUpstream(v.Context(), v.Caller(), control.UpstreamChange{Upstream: d.Number, Settings: set})
	}
	if err != nil {
		again(v, &f, err)
		return
	}
	if d.Notice != "" { // it is about this change, so only this answer shows it
		v.Show(http.StatusOK, upstreamView(v, &d, ""))
		return
	}
	v.To(upstreamURL(d.Number))
}
