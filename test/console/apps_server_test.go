package console

import (
	"bytes"
	"encoding/json"
	"image"
	"image/jpeg"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/plug/mcp/apps"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// appsProgram is a program that connects to /mcp and shows the pages of tools.
type appsProgram struct {
	*appsHost
	session *sdk.ClientSession
	pages   map[string]string // HTML by the last parts of the addresses
	tools   []string          // those with a page
}

// newAppsProgram connects with a key and fetches all pages that the tools name.
func newAppsProgram(h *testServer, key string) *appsProgram {
	h.t.Helper()
	can := &sdk.ClientCapabilities{}
	can.AddExtension(apps.Extension, map[string]any{"mimeTypes": []string{apps.MIME}})
	session, err := sdk.NewClient(&sdk.Implementation{Name: "desk", Version: "1"},
		&sdk.ClientOptions{Capabilities: can}).
		Connect(h.limit(), &sdk.StreamableClientTransport{Endpoint: h.url + "/mcp",
			HTTPClient: &http.Client{Transport: withKey(key)}},
			&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	must(h.t, err)
	h.t.Cleanup(func() { session.Close() })
	p := &appsProgram{session: session, pages: map[string]string{}}
	for x, err := range session.Tools(h.limit(), nil) {
		must(h.t, err)
		ui, _ := x.Meta["ui"].(map[string]any)
		uri, _ := ui["resourceUri"].(string)
		if uri == "" {
			continue
		}
		p.tools = append(p.tools, x.Name)
		name := strings.Split(strings.TrimPrefix(uri, apps.Prefix), "/")[0]
		if p.pages[name] != "" {
			continue
		}
		read, err := session.ReadResource(h.limit(), &sdk.ReadResourceParams{URI: uri})
		must(h.t, err)
		if len(read.Contents) != 1 || read.Contents[0].MIMEType != apps.MIME {
			h.t.Fatalf("%s is %+v", uri, read)
		}
		p.pages[name] = read.Contents[0].Text
	}
	plain, err := os.ReadFile(filepath.Join("testdata", "apps", "plain.js"))
	must(h.t, err)
	p.appsHost = newAppsHost(h.t.(*testing.T), plain, func(view string) string { return p.pages[view] }, p.relay)
	return p
}

// withKey adds a key to requests.
type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// relay passes a call of a page on.
func (p *appsProgram) relay(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	res, err := p.session.CallTool(r.Context(), &sdk.CallToolParams{Name: call.Name, Arguments: call.Arguments})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(res) // a browser that is gone needs no answer
}

// tool returns the name of a board's tool, which begins with the board's.
func (p *appsProgram) tool(end string) string {
	p.t.Helper()
	i := slices.IndexFunc(p.tools, func(name string) bool { return strings.HasSuffix(name, end) })
	if i < 0 {
		p.t.Fatalf("no tool that ends with %s has a page: %s", end, p.tools)
	}
	return p.tools[i]
}

// uses calls a tool, as the model of the program does, and shows its page with the result.
func (p *appsProgram) uses(view apps.View, tool, args string) {
	p.t.Helper()
	res, err := p.session.CallTool(p.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	must(p.t, err)
	text, err := json.Marshal(res)
	must(p.t, err)
	p.show(view, pale, args, string(text))
}

// somePicture returns a photo as a camera makes it.
func somePicture(t *testing.T) []byte {
	t.Helper()
	var w bytes.Buffer
	must(t, jpeg.Encode(&w, image.NewGray(image.Rect(0, 0, 64, 48)), nil))
	return w.Bytes()
}

// Pages come from a server, and their buttons do what they say: reviews are stored, and a board
// changes its volume and takes a photo.
func TestAppsOverServer(t *testing.T) {
	h := newServerWithAda(t)
	bot := strconv.FormatInt(h.bot("Parrot", "echo"), 10)
	kitchen := h.newBoard(xiaozhi.Options{Scale: 0.01, Picture: somePicture(t), OnEvent: func(e xiaozhi.Event) {
		if e.Kind == xiaozhi.EventCode {
			if out, err := h.command("device", "approve", e.Text, "--user", ada, "--name", "Kitchen",
				"--bot", bot).CombinedOutput(); err != nil {
				t.Errorf("device approve: %v\n%s", err, out)
			}
		}
	}})
	must(t, kitchen.Boot(h.limit()))
	must(t, kitchen.Wake(h.limit()))
	h.feed("der Hund "+hostile+"\tthe dog\ndie Katze\tthe cat\n", "learn", "add", "--user", ada, "--file", "-")
	p := newAppsProgram(h, h.key("desk", "mcp"))
	if len(p.pages) != 3 {
		t.Fatalf("the tools have the pages %v", p.tools)
	}

	p.uses(apps.Learn, "next_review", `{}`)
	p.sees("Left today: 2")
	for _, answer := range []string{"the dog", "the cat"} {
		p.press("Show the answer")
		p.sees(answer)
		p.isFine(0)
		p.press("Easy")
	}
	p.sees("Nothing is left to review now.")
	if list := h.run("calls", "--user", ada); strings.Count(list, "submit_review") != 2 {
		t.Errorf("the audit trail has other calls than two reviews:\n%s", list)
	}

	p.uses(apps.Board, p.tool("get_device_status"), `{}`)
	p.sees("Network: wifi, home, strong")
	p.b.Script("host.probe('set', '#volume', '41')")
	if calls := p.called(1); !strings.Contains(calls, p.tool("set_volume")) {
		t.Errorf("the calls are %s", calls)
	}
	p.press("Ask the board again")
	p.sees("41 %")
	p.isFine(0)

	p.uses(apps.Camera, p.tool("take_photo"), `{"question":"What is there?"}`)
	p.sees("Take another picture")
	p.isFine(1)
	p.b.Script("host.probe('set', '#question', 'And now?')")
	p.press("Take another picture")
	p.called(1)
	p.sees("And now?")
	if n := browsertest.Evaluate[int](p.b, "host.probe('count', 'img')"); n != 1 {
		t.Errorf("there are %d pictures", n)
	}
	for _, v := range kitchen.Report().Violations {
		t.Errorf("the board: %v", v)
	}
}
