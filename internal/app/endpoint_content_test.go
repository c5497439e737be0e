package app

//lint:file-ignore SA1019 servers still log

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/account"
	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// socket is a WebSocket as a transport of the official SDK.
type socket struct{ conn *websocket.Conn }

func (s socket) Connect(context.Context) (mcp.Connection, error) { return s, nil }
func (s socket) SessionID() string                               { return "" }
func (s socket) Close() error                                    { return s.conn.CloseNow() }

func (s socket) Read(ctx context.Context) (jsonrpc.Message, error) {
	_, data, err := s.conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(data)
}

func (s socket) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.conn.Write(ctx, websocket.MessageText, data)
}

// library is a server of the official SDK with a tool, resources and prompts. It connects to
// instances.
type library struct {
	*mcp.Server
	watched, unwatched atomic.Int32
}

func newLibrary() *library {
	l := &library{}
	l.Server = mcp.NewServer(&mcp.Implementation{Name: "library"}, &mcp.ServerOptions{
		SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error {
			l.watched.Add(1)
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error {
			l.unwatched.Add(1)
			return nil
		},
		CompletionHandler: func(_ context.Context, q *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
				Values: []string{q.Params.Argument.Value + "1984"}}}, nil
		},
	})
	read := func(_ context.Context, q *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if strings.HasSuffix(q.Params.URI, "/none") {
			return nil, mcp.ResourceNotFoundError(q.Params.URI)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: q.Params.URI,
			Text: strings.Repeat("é", 1<<20)}}}, nil // more than fits into one message of the bus
	}
	l.AddResource(&mcp.Resource{URI: "book://emma", Name: "Emma"}, read)
	l.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "book://by-year/{year}", Name: "Books"}, read)
	l.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "book"}}},
		func(_ context.Context, q *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: "Review " + q.Params.Arguments["book"]}}}}, nil
		})
	mcp.AddTool(l.Server, &mcp.Tool{Name: "borrow"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	return l
}

// dial connects to an instance.
func (l *library) dial(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), address, nil)
	must(t, err)
	conn.SetReadLimit(1 << 22)
	_, err = l.Connect(t.Context(), socket{conn}, nil)
	must(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

// sdkClient is a client of the official SDK.
type sdkClient struct {
	*mcp.ClientSession
	updated chan string   // URIs
	changed chan struct{} // the list of resources
	logs    chan string
}

// program connects a program of a person to an instance; an empty version is the newest.
func (i *instance) program(t *testing.T, person, version string) *sdkClient {
	t.Helper()
	_, key, err := i.Accounts.AddKey(t.Context(), account.NewKey{Person: person, Name: "program",
		Scopes: []string{account.ScopeMCP}})
	must(t, err)
	p := &sdkClient{updated: make(chan string, 100), changed: make(chan struct{}, 100),
		logs: make(chan string, 100)}
	client := mcp.NewClient(&mcp.Implementation{Name: "program"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, q *mcp.ResourceUpdatedNotificationRequest) {
			p.updated <- q.Params.URI
		},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			p.changed <- struct{}{}
		},
		LoggingMessageHandler: func(_ context.Context, q *mcp.LoggingMessageRequest) {
			p.logs <- fmt.Sprint(q.Params.Level, " ", q.Params.Logger, " ", q.Params.Data)
		},
	})
	base, _, _ := strings.Cut(i.url, "/mcp_endpoint")
	p.ClientSession, err = client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http" + strings.TrimPrefix(base, "ws") + "/mcp", HTTPClient: &http.Client{Transport: keyed(key)}},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// keyed sends a key with each request.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// resources lists the URIs of all resources.
func (p *sdkClient) resources(t *testing.T) (uris []string) {
	t.Helper()
	for r, err := range p.Resources(t.Context(), nil) {
		must(t, err)
		uris = append(uris, r.URI)
	}
	return uris
}

func (p *sdkClient) prompts(t *testing.T) (names []string) {
	t.Helper()
	for r, err := range p.Prompts(t.Context(), nil) {
		must(t, err)
		names = append(names, r.Name)
	}
	return names
}

// heard waits until the program hears of an update, which is repeated meanwhile: the subscription
// may follow the server a moment later.
func (p *sdkClient) heard(t *testing.T, l *library, uri string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(soon); ; {
		must(t, l.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}))
		select {
		case got := <-p.updated:
			if want := strings.Replace(uri, "book://", "book://books/", 1); got != want {
				t.Fatalf("it hears of %s, want %s", got, want)
			}
			return
		case <-tick.C:
		case <-limit:
			t.Fatal("it hears of no update")
		}
	}
}

const emma = "book://books/emma"

// Resources and prompts of a tool server that has connected to another instance are there like its
// tools: lists, contents, completions, and updates, also when it moves. Nobody else has them. When
// the other instance is gone, the error says what is not connected.
func TestContentOnAnotherInstance(t *testing.T) {
	urls := strings.Split(bustest.Cluster(t, 2), ",")
	db := storetest.Postgres(t)
	here := newInstance(t, hubtest.Options{DB: db, BusURL: urls[0], Name: "here"})
	there := newInstance(t, hubtest.Options{DB: db, BusURL: urls[1], Name: "there"})
	_, token := here.add(t, "books")
	for _, i := range []*instance{here, there} {
		must(t, i.refresh(t.Context()))
	}
	l, ada := newLibrary(), here.program(t, here.Person.ID, "")
	bob, err := here.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "")
	must(t, err)
	other := here.program(t, bob.ID, "")
	l.dial(t, there.url+token)
	here.await(t, "the tools are there", has("books_borrow"))
	<-ada.changed // the list of resources has changed

	if got := ada.resources(t); !slices.Contains(got, emma) {
		t.Errorf("resources %q", got)
	}
	templates, err := ada.ListResourceTemplates(t.Context(), nil)
	must(t, err)
	if !slices.ContainsFunc(templates.ResourceTemplates, func(r *mcp.ResourceTemplate) bool {
		return r.URITemplate == "book://books/by-year/{year}"
	}) {
		t.Errorf("templates %+v", templates.ResourceTemplates)
	}
	for _, uri := range []string{emma, "book://books/by-year/1815"} {
		read, err := ada.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		must(t, err)
		if c := read.Contents[0]; c.URI != uri || len(c.Text) != 2<<20 {
			t.Errorf("%s is %s with %d bytes", uri, c.URI, len(c.Text))
		}
	}
	if _, err = ada.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "book://books/by-year/none"}); err == nil ||
		!strings.Contains(err.Error(), "Resource not found") {
		t.Errorf("what does not exist is answered with %v", err)
	}
	if got := ada.prompts(t); !slices.Contains(got, "books_review") || !slices.Contains(got, "books_use") {
		t.Errorf("prompts %q", got)
	}
	prompt, err := ada.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "books_review",
		Arguments: map[string]string{"book": "Emma"}})
	must(t, err)
	if got := prompt.Messages[0].Content.(*mcp.TextContent).Text; got != "Review Emma" {
		t.Errorf("the prompt is %q", got)
	}
	for _, ref := range []*mcp.CompleteReference{{Type: "ref/prompt", Name: "books_review"},
		{Type: "ref/resource", URI: "book://books/by-year/{year}"}} {
		c, err := ada.Complete(t.Context(), &mcp.CompleteParams{Ref: ref,
			Argument: mcp.CompleteParamsArgument{Name: "book", Value: "x"}})
		must(t, err)
		if !slices.Equal(c.Completion.Values, []string{"x1984"}) {
			t.Errorf("%+v is completed with %q", ref, c.Completion.Values)
		}
	}

	// Nobody else sees it.
	if got := other.resources(t); slices.Contains(got, emma) {
		t.Errorf("somebody else's resources are %q", got)
	}
	if got := other.prompts(t); slices.Contains(got, "books_review") {
		t.Errorf("somebody else's prompts are %q", got)
	}
	if _, err := other.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: emma}); err == nil {
		t.Error("somebody else reads it")
	}
	must(t, other.Subscribe(t.Context(), &mcp.SubscribeParams{URI: emma})) // of what need not exist yet

	// Updates.
	must(t, ada.Subscribe(t.Context(), &mcp.SubscribeParams{URI: emma}))
	awaitTrue(t, "the server watches", func() bool { return l.watched.Load() == 1 })
	ada.heard(t, l, "book://emma")
	moved := l.dial(t, here.url+token)
	here.await(t, "it has moved", func(v *hub.View) bool {
		t := v.Tool("books_borrow")
		return t != nil && t.IsLocal()
	})
	ada.heard(t, l, "book://emma")
	l.dial(t, there.url+token)
	here.await(t, "it has moved", func(v *hub.View) bool {
		t := v.Tool("books_borrow")
		return t != nil && !t.IsLocal()
	})
	moved.CloseNow()
	ada.heard(t, l, "book://emma")
	l.AddResource(&mcp.Resource{URI: "book://persuasion", Name: "Persuasion"}, nil)
	for limit := time.After(soon); !slices.Contains(ada.resources(t), "book://books/persuasion"); {
		select {
		case <-ada.changed:
		case <-limit:
			t.Fatal("it is not told of another resource")
		}
	}
	before := l.unwatched.Load()
	must(t, ada.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: emma}))
	awaitTrue(t, "the server need not watch", func() bool { return l.unwatched.Load() > before })
	if len(other.updated) > 0 {
		t.Error("somebody else hears of updates")
	}

	// The other instance dies.
	there.Hub.Bus.Abort()
	awaitTrue(t, "the error is that it is not connected", func() bool {
		_, err := ada.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: emma})
		return err != nil && strings.Contains(err.Error(), "books is not connected at the moment")
	})
	_, gone := ada.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "books_review"})
	_, unwatched := here.Hub.Subscribe(t.Context(), "upstream:1", tool.Caller{Person: here.Person.ID}, emma)
	for _, err := range []error{gone, unwatched} {
		if err == nil || !strings.Contains(err.Error(), "books is not connected at the moment") {
			t.Errorf("when it is gone: %v", err)
		}
	}
	if got := ada.resources(t); slices.Contains(got, emma) {
		t.Errorf("resources %q", got)
	}
}

func awaitTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * soon); !is(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("still not: %s", what)
		}
	}
}

// What a server logs outside of calls is heard by the programs of its owner that have set a level,
// also at another instance. Other programs of the owner, and other people, do not hear it.
func TestLogsOutsideOfCalls(t *testing.T) {
	urls, db := strings.Split(bustest.Cluster(t, 2), ","), storetest.Postgres(t)
	here := newInstance(t, hubtest.Options{DB: db, BusURL: urls[0], Name: "here"})
	there := newInstance(t, hubtest.Options{DB: db, BusURL: urls[1], Name: "there"})
	_, token := here.add(t, "books")
	for _, i := range []*instance{here, there} {
		must(t, i.refresh(t.Context()))
	}
	bob, err := here.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", "")
	must(t, err)
	const version = "2025-11-25"
	quiet, other := there.program(t, here.Person.ID, version), there.program(t, bob.ID, version)
	near, far := there.program(t, here.Person.ID, version), here.program(t, here.Person.ID, version)
	for _, p := range []*sdkClient{near, far, other} {
		must(t, p.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
	}
	l := newLibrary()
	l.dial(t, there.url+token)
	for _, i := range []*instance{here, there} {
		i.await(t, "the tools are there", has("books_borrow"))
	}
	_, err = near.CallTool(t.Context(), &mcp.CallToolParams{Name: "books_borrow"}) // the server learns the level
	must(t, err)
	log := func(level mcp.LoggingLevel, text string) {
		for s := range l.Sessions() {
			must(t, s.Log(t.Context(), &mcp.LoggingMessageParams{Level: level, Logger: "shelf", Data: text}))
		}
	}
	log("debug", "detail")
	log("warning", "a book is missing")
	for _, p := range []*sdkClient{near, far} {
		select {
		case got := <-p.logs:
			if got != "warning books/shelf a book is missing" {
				t.Errorf("it hears %q", got)
			}
		case <-time.After(soon):
			t.Fatal("it hears nothing")
		}
	}
	if len(quiet.logs)+len(other.logs) > 0 {
		t.Error("a program without a level, or somebody else, hears it")
	}
	if log := there.log.String(); !strings.Contains(log, "a book is missing") {
		t.Error("the log of the instance does not have it")
	}
}
