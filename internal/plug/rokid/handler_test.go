package rokid_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/talk"
)

// TestDocumentedRequests sends the examples of docs/ROKID_LINGZHU_SSE_API.md in
// sengmitnick/eyeclaw, "请求示例" and "测试命令", unchanged.
func TestDocumentedRequests(t *testing.T) {
	d := newHandlerRig(t, options{})
	cases := map[string]struct{ body, file string }{
		"a question": {`{
    "message_id": "1021",
    "agent_id": "1",
    "message": [
      {"role": "user", "type": "text", "text": "你好"}
    ]
  }`, "question.sse"},
		"with metadata and user": {`{
    "message_id": "1021",
    "agent_id": "1",
    "user_id": "user_123",
    "metadata": {
      "context": {
        "location": "杭州市西湖区世贸中心",
        "latitude": "39.9088",
        "longitude": "116.3975",
        "currentTime": "2025-03-11 11:22:41",
        "weather": "晴天",
        "battery": "85%"
      }
    },
    "message": [
      {"role": "user", "type": "text", "text": "若琪帮我写一首诗"}
    ]
  }`, "poem.sse"},
		"no such bot": {`{"message_id":"1021","agent_id":"999","user_id":"user_123","message":[{"role":"user","type":"text","text":"你好"}]}`, "no_bot.sse"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			res := d.post(t, c.body)
			if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 ||
				!strings.HasPrefix(ct, "text/event-stream") {
				t.Fatalf("%d %s", res.StatusCode, ct)
			}
			text := raw(t, res)
			listen(t, strings.NewReader(text))
			golden(t, c.file, text)
		})
	}
}

// TestPictures includes the documentation's example of a picture, which has the address in text.
func TestPictures(t *testing.T) {
	d := newHandlerRig(t, options{})
	picture := pngBytes(t)
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/image.jpg":
			w.Write(picture)
		case "/page":
			fmt.Fprint(w, "<html>not a picture</html>")
		case "/huge":
			w.Write(append(bytes.Clone(picture), make([]byte, 6<<20)...))
		case "/slow":
			<-r.Context().Done()
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(files.Close) // after the parallel cases
	inText := func(addr string) string {
		return fmt.Sprintf(`{"message_id":"1022","agent_id":"1","message":[{"role":"user","type":"image","text":%q}]}`,
			addr)
	}
	seen := fmt.Sprintf("我看到一张图片（image/png，%d 字节）。", len(picture))
	cases := map[string]struct{ body, want string }{
		"address in text":        {inText(files.URL + "/image.jpg"), seen},
		"address in image_url":   {turn("1", "", "1", "", files.URL+"/image.jpg"), seen},
		"data address":           {turn("1", "", "2", "", dataURI(picture)), seen},
		"words and picture":      {`{"message_id":"3","agent_id":1,"message":[{"text":"看"},{"type":"image","image_url":"` + files.URL + `/image.jpg"}]}`, "看 " + seen},
		"not a picture":          {inText(files.URL + "/page"), "这张图片无法识别，请再拍一次。"},
		"too large":              {inText(files.URL + "/huge"), "图片太大了，请再拍一次。"},
		"too slow":               {inText(files.URL + "/slow"), "图片没能收到，请再拍一次。"},
		"gone":                   {inText(files.URL + "/nothing"), "图片没能收到，请再拍一次。"},
		"redirect to metadata":   {inText(files.URL + "/metadata"), "图片没能收到，请再拍一次。"},
		"metadata service":       {inText("http://169.254.169.254/latest/meta-data"), "图片没能收到，请再拍一次。"},
		"private network":        {inText("http://10.0.0.1/image.jpg"), "图片没能收到，请再拍一次。"},
		"loopback by other name": {inText("http://[::1]/image.jpg"), "图片没能收到，请再拍一次。"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h := listen(t, d.post(t, c.body).Body); h.text != c.want {
				t.Errorf("heard %q, want %q", h.text, c.want)
			}
		})
	}
}

func TestPicturesAreRationed(t *testing.T) {
	d := newHandlerRig(t, options{change: func(o *rokid.Options) { o.ImagesPerHour = 2 }})
	for i, want := range []string{"我看到", "我看到", "照片太多了"} {
		h := listen(t, d.post(t, turn("1", "someone", fmt.Sprint(i), "", dataURI(pngBytes(t)))).Body)
		if !strings.HasPrefix(h.text, want) {
			t.Errorf("picture %d: %q", i+1, h.text)
		}
	}
}

// TestRefusals checks that mistakes of programs are answered at once with an error in the
// documented form that reveals no more than the caller should know.
func TestRefusals(t *testing.T) {
	d := newHandlerRig(t, options{})
	revoked := d.Key(t, account.NewKey{Scopes: []string{account.ScopeLingzhu}})
	keys, err := d.Store.Keys.ByPerson(ctx, "")
	must(t, err)
	must(t, d.Store.Keys.Revoke(ctx, keys[len(keys)-1].ID, time.Now()))
	expired := d.Key(t, account.NewKey{Scopes: []string{account.ScopeLingzhu}, Expires: time.Nanosecond})
	wrongScope := d.Key(t, account.NewKey{Scopes: []string{account.ScopeMCP}})
	stranger, err := d.Accounts.AddPerson(ctx, "bob", account.RoleMember, "en", "")
	must(t, err)
	foreign := d.Key(t, account.NewKey{Person: stranger.ID, Scopes: []string{account.ScopeLingzhu}})
	good := turn("1", "", "1", "你好", "")
	const bad = "Invalid authentication token"
	const missing = "Missing required parameters: message_id, agent_id, or message"
	cases := map[string]struct{ key, body, want string }{
		"no key":               {"", good, "Missing Authorization header"},
		"unknown key":          {"guess", good, bad},
		"revoked key":          {revoked, good, bad},
		"expired key":          {expired, good, bad},
		"key for other things": {wrongScope, good, bad},
		"somebody else's bot":  {foreign, good, "Bot not found: 1"},
		"no message_id":        {d.key, `{"agent_id":"1","message":[{"text":"x"}]}`, missing},
		"no agent_id":          {d.key, `{"message_id":"1","message":[{"text":"x"}]}`, missing},
		"no message":           {d.key, `{"message_id":"1","agent_id":"1"}`, missing},
		"empty message":        {d.key, `{"message_id":"1","agent_id":"1","message":[]}`, missing},
		"null message":         {d.key, `{"message_id":"1","agent_id":"1","message":null}`, missing},
		"empty body":           {d.key, ``, "Invalid JSON: syntax error at byte 0"},
		"half a body":          {d.key, `{"message_id":`, "Invalid JSON: syntax error at byte 14"},
		"an array":             {d.key, `[1]`, "Invalid JSON: not the expected form"},
		"message is a number": {d.key, `{"message_id":"1","agent_id":"1","message":7}`,
			"Invalid JSON: not the expected form"},
		"id is an object": {d.key, `{"message_id":{},"agent_id":"1","message":[]}`,
			"Invalid JSON: not the expected form"},
		"too large": {d.key, `{"message_id":"` + strings.Repeat("x", 1<<20) +
			`","agent_id":"1","message":[{"text":"x"}]}`, "Invalid JSON: an id is too long"},
		"negative bot": {d.key, turn("-1", "", "1", "x", ""), "Bot not found: -1"},
		"number too large": {d.key, turn("99999999999999999999", "", "1", "x", ""),
			"Bot not found: 99999999999999999999"},
		"hex and no user":     {d.key, turn(agent, "", "1", "x", ""), "Bot not found: " + agent},
		"decimal with a user": {d.key, turn("999", "user_123", "1", "x", ""), "Bot not found: 999"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			res := d.send(t, ctx, c.key, c.body)
			h := listen(t, res.Body)
			if res.StatusCode != 200 || len(h.errors) != 1 || h.errors[0] != c.want || h.text != "" {
				t.Errorf("%d %v %q, want the error %q", res.StatusCode, h.errors, h.text, c.want)
			}
		})
	}
	t.Run("GET", func(t *testing.T) {
		res, err := http.Get(d.url)
		must(t, err)
		res.Body.Close()
		if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
			t.Errorf("%d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
		}
	})
}

func TestHTTPErrors(t *testing.T) {
	d := newHandlerRig(t, options{change: func(o *rokid.Options) { o.HTTPErrors = true }})
	res := d.send(t, ctx, "guess", turn("1", "", "1", "x", ""))
	if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != "Bearer" ||
		raw(t, res) != `{"error":"Invalid authentication token"}`+"\n" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

// TestGuessingKeys checks that guessing is slowed down while a valid key from the same address
// still works, since many wearers come through one cloud.
func TestGuessingKeys(t *testing.T) {
	d := newHandlerRig(t, options{})
	for i := range 10 {
		if res := d.send(t, ctx, fmt.Sprint("guess ", i), "{}"); res.StatusCode != 200 {
			t.Fatalf("guess %d: %d", i, res.StatusCode)
		}
	}
	if res := d.send(t, ctx, "guess", "{}"); res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
		t.Fatalf("guess 11: %d", res.StatusCode)
	}
	if h := listen(t, d.post(t, turn("1", "", "1", "你好", "")).Body); h.text != "你好" {
		t.Fatalf("with the good key: %q", h.text)
	}
}

func TestRealBodies(t *testing.T) {
	d := newHandlerRig(t, options{})
	var last atomic.Pointer[talk.Turn]
	bot := d.AddScript(t, nil, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		last.Store(turn)
		return emit(talk.Text("ok"))
	})
	key := d.keyFor(t, bot.Number)
	cases := map[string]struct {
		body string
		text string
	}{
		"as logged":          {turn(agent, wearer, sessionKey, "帮我看看日程", ""), "帮我看看日程"},
		"numbers for ids":    {`{"message_id":1774245909000,"agent_id":7,"user_id":9,"message":[{"text":"a"}]}`, "a"},
		"content for text":   {`{"message_id":"1","agent_id":"x","message":[{"role":"user","content":"b"}]}`, "b"},
		"metadata null":      {`{"message_id":"1","agent_id":"x","metadata":null,"message":[{"text":"c"}]}`, "c"},
		"metadata odd":       {`{"message_id":"1","agent_id":"x","metadata":[1],"message":[{"text":"d"}]}`, "d"},
		"last words win":     {`{"message_id":"1","agent_id":"x","message":[{"text":"old"},{"role":"agent","text":"reply"},{"text":"e"}]}`, "e"},
		"one message object": {`{"message_id":"1","agent_id":"x","message":{"text":"f"}}`, "f"},
		"unknown keys":       {`{"zz":1,"message_id":"1","agent_id":"x","message":[{"text":"g","zz":{}}]}`, "g"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := listen(t, d.send(t, ctx, key, c.body).Body)
			if got := last.Load(); h.text != "ok" || got.Text() != c.text {
				t.Errorf("heard %q, the bot %q", h.text, got.Text())
			}
		})
	}
	listen(t, d.send(t, ctx, key, turn(agent, wearer, sessionKey, "again", "")).Body)
	got := last.Load()
	if got.Person != "lingzhu:"+d.Person.ID+":"+wearer || got.Conversation != sessionKey || got.Lang != i18n.Chinese ||
		len(got.History) != 2 {
		t.Errorf("turn %+v", got)
	}
	var m map[string]any
	must(t, json.Unmarshal(got.Metadata, &m))
	if m["weather"] != "今天:晴 12~20℃\n明天:多云\n后天:小雨" {
		t.Errorf("metadata %s", got.Metadata)
	}
}

func TestCommandsAndSuggestions(t *testing.T) {
	d := newHandlerRig(t, options{})
	bot := d.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		emit(talk.DoCommand(talk.Command{Name: talk.CommandNavigate,
			Args: map[string]string{"action": "open", "poi_name": "西湖", "navi_type": "1", "junk": "x"}}))
		emit(talk.DoCommand(talk.Command{Name: talk.CommandCalendar,
			Args: map[string]string{"action": "create", "title": "会议", "start_time": "2026-03-24 09:00",
				"end_time": "2026-03-24 10:00"}}))
		emit(talk.Text("好的\n\n"))
		emit(talk.Text("\t\"引号\" \\ <b>"))
		emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
		emit(talk.DoCommand(talk.Command{Name: talk.CommandLeave}))
		return emit(talk.Suggest("附近有什么？", "怎么走？"))
	})
	text := raw(t, d.send(t, ctx, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "导航", "")))
	listen(t, strings.NewReader(text))
	golden(t, "commands.sse", text)
}

func TestPush(t *testing.T) {
	type pushed struct {
		auth string
		body map[string]any
	}
	got := make(chan pushed, 10)
	var tries atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metis/callback/message" {
			t.Errorf("pushed to %s", r.URL.Path)
		}
		if tries.Add(1) == 1 {
			fmt.Fprint(w, `{"code":500,"data":{"success":false}}`)
			return
		}
		p := pushed{auth: r.Header.Get("Authorization")}
		json.NewDecoder(r.Body).Decode(&p.body)
		fmt.Fprint(w, `{"code":1,"data":{"success":true}}`)
		got <- p
	}))
	defer service.Close()
	d := newHandlerRig(t, options{change: func(o *rokid.Options) { o.PushURL = service.URL }})
	started, release := make(chan struct{}), make(chan struct{})
	bot := d.AddScript(t, map[string]string{"push_key": "the-sk"},
		func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
			close(started)
			<-release
			return emit(talk.Text("**结果**"))
		})
	calling, hangUp := context.WithCancel(ctx)
	res := d.send(t, calling, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "慢", ""))
	<-started
	hangUp()
	res.Body.Close()
	// The handler must have noticed the disconnect before the bot ends.
	awaitTrace(t, d, bot.Number)
	close(release)
	p := <-got
	content := p.body["message"].(map[string]any)
	if p.auth != "Bearer the-sk" || p.body["account_id"] != wearer || content["agent_id"] != agent ||
		content["content"] != "上次的问题有结果了：结果" {
		t.Errorf("pushed %+v", p)
	}
}

// awaitTrace waits until a bot's turn has a trace.
func awaitTrace(t *testing.T, d *handlerRig, bot int64) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		traces, err := d.Store.Traces.Newest(ctx, "", time.Now().Add(time.Hour), 10)
		must(t, err)
		for _, tr := range traces {
			if tr.Bot == bot {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no trace was written")
		}
	}
}

func TestRepeatedPost(t *testing.T) {
	d := newHandlerRig(t, options{})
	var mu sync.Mutex
	asked := 0
	release := make(chan struct{})
	bot := d.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		mu.Lock()
		asked++
		mu.Unlock()
		emit(talk.Text("一"))
		<-release
		return emit(talk.Text("二"))
	})
	key := d.keyFor(t, bot.Number)
	body := turn(agent, wearer, sessionKey, "?", "")
	one := d.send(t, ctx, key, body)
	two := d.send(t, ctx, key, body)
	close(release)
	for _, res := range []*http.Response{one, two} {
		if h := listen(t, res.Body); h.text != "一二" {
			t.Errorf("heard %q", h.text)
		}
	}
	if asked != 1 {
		t.Errorf("the bot was asked %d times", asked)
	}
}

func TestDisplay(t *testing.T) {
	d := newHandlerRig(t, options{})
	long := "第一句话。第二句话。第三句话。第四句话。第五句话。"
	bot := d.AddScript(t, map[string]string{"max_chars": "12"}, say(strings.Split(long, "")...))
	key := d.keyFor(t, bot.Number)
	ask := func(text string) string {
		return listen(t, d.send(t, ctx, key, turn(agent, wearer, fmt.Sprint(time.Now().UnixNano()), text, "")).Body).
			text
	}
	first := ask("说吧")
	if first != "第一句话。第二句话。…说“继续”看更多" {
		t.Fatalf("first page %q", first)
	}
	second, third := ask("继续。"), ask("更多")
	if second != "第三句话。第四句话。…说“继续”看更多" || third != "第五句话。" {
		t.Fatalf("second page %q, third %q", second, third)
	}
	if again := ask("继续"); again != first {
		t.Fatalf("with nothing left, the bot is asked: %q", again)
	}

	marked := d.AddScript(t, map[string]string{"plain": "markdown,urls,emoji"},
		say("# 标题\n", "**粗", "体** [链", "接](https://example.org) 😀"))
	h := listen(t, d.send(t, ctx, d.keyFor(t, marked.Number), turn(agent, wearer, sessionKey, "?", "")).Body)
	if strings.ContainsAny(h.text, "*#[]😀") || !strings.Contains(h.text, "粗体 链接") {
		t.Errorf("shown %q", h.text)
	}
}

func pngBytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))))
	return b.Bytes()
}
