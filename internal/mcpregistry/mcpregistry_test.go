package mcpregistry

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// entries are in the form of the registry's own examples (docs/reference/server-json,
// generic-server-json.md), with things that strangers may write.
const entries = `[
{"server":{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
  "name":"io.github.acme/weather","title":"Weather","description":"Forecasts for everybody","version":"1.2.0",
  "repository":{"url":"https://github.com/acme/weather","source":"github"},
  "remotes":[{"type":"streamable-http","url":"https://{tenant}.acme.example/mcp","variables":{"tenant":{"description":"Your tenant","isRequired":true}},
    "headers":[{"name":"Authorization","value":"Bearer {api_key}","isSecret":true,"variables":{"api_key":{"description":"Your key","isRequired":true,"isSecret":true}}},
               {"name":"X-Region","description":"Where","choices":["eu","us"],"default":"eu"},{"name":"X-Opt","description":"Not needed"}]},
   {"type":"sse","url":"https://acme.example/sse"}],
  "packages":[{"registryType":"npm","registryBaseUrl":"https://registry.npmjs.org","identifier":"@acme/weather","version":"1.2.0","runtimeHint":"npx","transport":{"type":"stdio"},
    "packageArguments":[{"type":"positional","value":"start"},{"type":"named","name":"--port","default":"80"},{"type":"positional","valueHint":"folder","isRequired":true}],
    "environmentVariables":[{"name":"WEATHER_KEY","isSecret":true,"isRequired":true},{"name":"DEBUG"}]}]},
 "_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","publishedAt":"2025-09-01T00:00:00Z","updatedAt":"2025-09-01T00:00:00Z","isLatest":true}}},
{"server":{"name":"com.example/images","description":"Images","version":"2.0.0","packages":[
  {"registryType":"oci","identifier":"docker.io/example/images:2.0.0","transport":{"type":"stdio"},
   "runtimeArguments":[{"type":"named","name":"--mount","value":"type=bind,src={source},dst=/data","variables":{"source":{"format":"filepath","isRequired":true}}}],
   "environmentVariables":[{"name":"TOKEN","isSecret":true}]},
  {"registryType":"pypi","identifier":"images-mcp","version":"2.0.0","transport":{"type":"stdio"}},
  {"registryType":"nuget","identifier":"Example.Images","version":"2.0.0","transport":{"type":"stdio"}},
  {"registryType":"mcpb","identifier":"https://github.com/x/y.mcpb","fileSha256":"fe333e598595000ae021bd27117db32ec69af6987f507ba7a63c90638ff633ce","transport":{"type":"stdio"}},
  {"registryType":"npm","identifier":"images","runtimeHint":"bash","transport":{"type":"stdio"}},
  {"registryType":"npm","identifier":"--call=rm","transport":{"type":"stdio"}},
  {"registryType":"npm","identifier":"images","registryBaseUrl":"https://evil.example","transport":{"type":"stdio"}},
  {"registryType":"npm","identifier":"images","transport":{"type":"streamable-http","url":"http://localhost:8080"}}]},
 "_meta":{}},
{"server":{"name":"com.example/gone","description":"Weather","version":"1.0.0"},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"deleted"}}},
{"server":{"name":"no slash weather","description":"Weather\u001b[31m","version":"1"}}
]`

// Registry is a stand-in for a registry: it serves entries as the specification says.
func registry(t testing.TB) *Client {
	t.Helper()
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(entries), &all); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("version") != "latest" || r.FormValue("limit") == "" {
			t.Errorf("the query is %s", r.URL.RawQuery)
		}
		at := 0
		if r.FormValue("cursor") == "second" {
			at = 1
		}
		page := map[string]any{"servers": all[at : at+1], "metadata": map[string]any{"count": 1,
			"nextCursor": "second"}}
		if at == 1 {
			page = map[string]any{"servers": all[1:], "metadata": map[string]any{"count": 3}}
		}
		json.NewEncoder(w).Encode(page)
	})
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, r *http.Request) {
		for _, raw := range all {
			var e entry
			json.Unmarshal(raw, &e)
			if e.Server.Name == r.PathValue("name") && (r.PathValue("version") == "latest" ||
				r.PathValue("version") == e.Server.Version) {
				w.Write(raw)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte(`{"error":"Server not found"}`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return New(s.URL + "/")
}

func TestSearch(t *testing.T) {
	c := registry(t)
	list, more, err := c.Search(t.Context(), "E Forecasts")
	if err != nil || more || len(list) != 1 || list[0].Name != "io.github.acme/weather" ||
		list[0].Publisher() != "io.github.acme" {
		t.Errorf("found %+v, %v, %v", list, more, err)
	}
	if list, _, err = c.Search(t.Context(), "e"); err != nil || len(list) != 2 {
		t.Errorf("found %+v, %v", list, err)
	}
	if _, _, err = c.Search(t.Context(), " "); err == nil {
		t.Error("a search for nothing")
	}
	if _, err = c.Server(t.Context(), "com.example/none", ""); err == nil || !strings.Contains(err.Error(),
		"has no server called com.example/none") {
		t.Error(err)
	}
	if _, err = c.Server(t.Context(), "../../etc", ""); err == nil {
		t.Error("a name that is none")
	}
	if _, _, err = New("http://127.0.0.1:1").Search(t.Context(), "x"); err == nil || !strings.Contains(err.Error(),
		"cannot be reached") {
		t.Error(err)
	}
}

func TestWays(t *testing.T) {
	c := registry(t)
	weather, err := c.Server(t.Context(), "io.github.acme/weather", "1.2.0")
	if err != nil {
		t.Fatal(err)
	}
	images, err := c.Server(t.Context(), "com.example/images", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(weather.Ways) != 3 || len(images.Ways) != 8 {
		t.Fatalf("ways: %d and %d", len(weather.Ways), len(images.Ways))
	}
	for _, test := range []struct {
		way   Way
		shown string
		given map[string]string
		want  string // settings, or the error
	}{
		{weather.Ways[0], "https://{tenant}.acme.example/mcp", map[string]string{"tenant": "t1", "api_key": "k"},
			`{"headers":"{\"Authorization\":\"Bearer k\",\"X-Region\":\"eu\"}","transport":"http","url":"https://t1.acme.example/mcp"}`},
		{weather.Ways[0], "", map[string]string{"tenant": "t1"}, "values are missing: api_key"},
		{weather.Ways[0], "", map[string]string{"tenant": "t1", "api_key": "k", "X-Region": "mars"},
			"choose among eu, us"},
		{weather.Ways[0], "", map[string]string{"tenant": "t1", "api_key": "k", "other": "x"}, "no value called other"},
		{weather.Ways[1], "https://acme.example/sse", nil, `{"transport":"sse","url":"https://acme.example/sse"}`},
		{weather.Ways[2], "npx -y @acme/weather@1.2.0 start --port={port} {folder}",
			map[string]string{"folder": "/a b", "WEATHER_KEY": "s"},
			`{"args":"[\"-y\",\"@acme/weather@1.2.0\",\"start\",\"--port=80\",\"/a b\"]","command":"npx","env":"{\"WEATHER_KEY\":\"s\"}"}`},
		{images.Ways[0], "docker run -i --rm -e TOKEN --mount=type=bind,src={source},dst=/data docker.io/example/images:2.0.0",
			map[string]string{"source": "/srv"},
			`{"args":"[\"run\",\"-i\",\"--rm\",\"-e\",\"TOKEN\",\"--mount=type=bind,src=/srv,dst=/data\",\"docker.io/example/images:2.0.0\"]","command":"docker"}`},
		{images.Ways[1], "uvx images-mcp@2.0.0", nil, `{"args":"[\"images-mcp@2.0.0\"]","command":"uvx"}`},
		{images.Ways[2], "dnx Example.Images@2.0.0 --yes --", nil, `{"args":"[\"Example.Images@2.0.0\",\"--yes\",\"--\"]","command":"dnx"}`},
		{images.Ways[3], "https://github.com/x/y.mcpb", nil, "packages of the type mcpb cannot be run"},
		{images.Ways[4], "images", nil, "it wants to be run by bash"},
		{images.Ways[5], "--call=rm", nil, "no valid name"},
		{images.Ways[6], "images", nil, "package registry of its own: https://evil.example"},
		{images.Ways[7], "images", nil, "serves on the network (streamable-http)"},
	} {
		if got := test.way.String(); test.shown != "" && got != test.shown {
			t.Errorf("shown is %q, want %q", got, test.shown)
		}
		set, err := test.way.Settings(test.given)
		raw, _ := json.Marshal(set)
		got := string(raw)
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%s with %v:\n got %s\nwant %s", test.way.String(), test.given, got, test.want)
		}
	}
	if in := weather.Ways[2].Missing(nil); len(in) != 2 || in[0].Name != "folder" || !in[1].Secret {
		t.Errorf("missing are %+v", in)
	}
}

// A publisher's value for a variable that changes what runs is refused, however it is written; what
// people give, and other variables, are not.
func TestVariables(t *testing.T) {
	for variable, want := range map[string]string{
		`{"name":"NODE_OPTIONS","value":"--require /tmp/x.js"}`:                             "changes which programs run: NODE_OPTIONS",
		`{"name":"LD_PRELOAD","default":"/tmp/x.so"}`:                                       "changes which programs run: LD_PRELOAD",
		`{"name":"PATH","choices":["/tmp"],"isRequired":true}`:                              "changes which programs run: PATH",
		`{"name":"PythonPath","value":"{a}","variables":{"a":{"default":"/tmp"}}}`:          "changes which programs run: PythonPath",
		`{"name":"npm_config_registry","value":"{a}","variables":{"a":{"value":"//x"}}}`:    "changes which programs run: npm_config_reg",
		`{"name":"A","default":"x"},{"name":"BASH_ENV","value":"{A}","variables":{"A":{}}}`: "changes which programs run: BASH_ENV",
		`{"name":"NODE_OPTIONS=--require /tmp/x.js"}`:                                       "no valid name: NODE_OPTIONS=--require",
		`{"name":"A\u000aNODE_OPTIONS","value":"x"}`:                                        "no valid name: A NODE_OPTIONS",
		`{"name":"NODE_OPTIONS"}`:                                                           "NODE_OPTIONS",
		`{"name":"NODE_ENV","value":"production"}`:                                          "NODE_ENV=production",
		`{"name":"PYTHONUNBUFFERED","value":"1"}`:                                           "PYTHONUNBUFFERED=1",
		`{"name":"URL","value":"a\u000a{k}\u202e","variables":{"k":{}}}`:                    "URL=a⟨U+000A⟩{k}⟨U+202E⟩",
	} {
		var e entry
		if err := json.Unmarshal([]byte(`{"server":{"name":"a/b","packages":[{"registryType":"npm","identifier":"b",
			"environmentVariables":[`+variable+`]}]}}`), &e); err != nil {
			t.Fatal(variable, err)
		}
		s, _ := e.server()
		w := &s.Ways[0]
		got := w.Problem().In("en")
		if len(w.Env) > 0 {
			got = w.Env[len(w.Env)-1].Told("=")
		}
		if w.Reason != "" && w.Command != "" || !strings.Contains(got, want) || w.Reason == "" && got != want {
			t.Errorf("%s is %q, want %q", variable, got, want)
		}
	}
}

func TestDefaultHost(t *testing.T) {
	var e entry
	if err := json.Unmarshal([]byte(`{"server":{"name":"a/b","remotes":[{"type":"sse","url":"https://{host}/{team}",
		"variables":{"host":{"default":"a.example"},"team":{}}},{"type":"sse","url":"https://a.example","headers":[
		{"name":"X-A\nB"}]}]}}`), &e); err != nil {
		t.Fatal(err)
	}
	s, _ := e.server()
	if got := s.Ways[0].String(); got != "https://a.example/{team}" || s.Ways[1].Reason != BadHeader {
		t.Errorf("shown is %q, and of the other %q", got, s.Ways[1].Problem())
	}
}

// Options of docker that open this machine are refused, however they are written; folders that
// people choose are not.
func TestContainers(t *testing.T) {
	for args, refused := range map[string]bool{
		`{"type":"positional","value":"--privileged"}`:                                                                                     true,
		`{"type":"named","name":"--privileged"}`:                                                                                           true,
		`{"type":"named","name":"--privileged","value":"true"}`:                                                                            true,
		`{"type":"named","name":"-v","value":"/:/host"}`:                                                                                   true,
		`{"type":"named","name":"-v","default":"/:/host"}`:                                                                                 true,
		`{"type":"named","name":"-v","choices":["data:/d","/:/d"]}`:                                                                        true,
		`{"type":"positional","value":"-v"},{"type":"positional","value":"~/.ssh:/ssh"}`:                                                   true,
		`{"type":"positional","value":"-v/:/host"}`:                                                                                        true,
		`{"type":"positional","value":"-itv"},{"type":"positional","value":"/:/host"}`:                                                     true,
		`{"type":"named","name":"-v","value":"{a}:/d","variables":{"a":{"default":"/etc"}}}`:                                               true,
		`{"type":"named","name":"--volume","value":"C:\\x:/d"}`:                                                                            true,
		`{"type":"named","name":"--mount","value":"src=/,dst=/d,type=bind"}`:                                                               true,
		`{"type":"named","name":"--mount","value":"type=volume,dst=/d,volume-opt=device=/"}`:                                               true,
		`{"type":"named","name":"--pid","value":"host"}`:                                                                                   true,
		`{"type":"named","name":"--network","value":"host"}`:                                                                               true,
		`{"type":"positional","value":"--net"},{"type":"positional","value":"host"}`:                                                       true,
		`{"type":"named","name":"--cap-add","value":"ALL"}`:                                                                                true,
		`{"type":"named","name":"--device","value":"/dev/sda"}`:                                                                            true,
		`{"type":"named","name":"--env-file","value":"/etc/x"}`:                                                                            true,
		`{"type":"named","name":"--label","valueHint":"x"},{"type":"named","name":"--label"},{"type":"positional","value":"--privileged"}`: true,
		`{"type":"named","name":"-v","value":"data:/d"}`:                                                                                   false,
		`{"type":"named","name":"-v","value":"{a}:/d:ro","variables":{"a":{}}}`:                                                            false,
		`{"type":"named","name":"--mount","value":"type=bind,src={a},dst=/d","variables":{"a":{}}}`:                                        false,
		`{"type":"named","name":"--network","value":"bridge"},{"type":"named","name":"--rm"}`:                                              false,
		`{"type":"named","name":"-e","value":"A=/x:/y"}`:                                                                                   false,
	} {
		var e entry
		if err := json.Unmarshal([]byte(`{"server":{"name":"a/b","packages":[{"registryType":"oci","identifier":"b",
			"runtimeArguments":[`+args+`]}]}}`), &e); err != nil {
			t.Fatal(args, err)
		}
		s, _ := e.server()
		if w := s.Ways[0]; (w.Reason == OpenContainer) != refused {
			t.Errorf("%s is %q: %s", args, w.String(), w.Problem())
		}
	}
}

func FuzzEntry(f *testing.F) {
	var all []json.RawMessage
	json.Unmarshal([]byte(entries), &all)
	for _, raw := range all {
		f.Add([]byte(raw), "x")
	}
	f.Fuzz(func(t *testing.T, raw []byte, value string) {
		var e entry
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		s, _ := e.server()
		for _, w := range s.Ways {
			_, known := runners[w.Kind]
			if w.Command != "" && (!known || runners[w.Kind].command != w.Command) {
				t.Errorf("a package of %s is run by %s", w.Kind, w.Command)
			}
			given := map[string]string{}
			for _, in := range w.Inputs {
				if given[in.Name] = value; len(in.Choices) > 0 {
					given[in.Name] = in.Choices[0]
				}
			}
			_ = w.String()
			set, err := w.Settings(given)
			if err == nil && w.Kind != Remote && (set["url"] != "" || set["command"] == "") {
				t.Errorf("the settings of %+v are %v", w, set)
			}
		}
	})
}
