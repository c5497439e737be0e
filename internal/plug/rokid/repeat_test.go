package rokid_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/rokid"
)

// TestRepeatsAreAnsweredAndNotDoneAgain checks that a request that the network delivers again gets
// the same answer but is executed once, and that a repetition by the person is executed.
func TestRepeatsAreAnsweredAndNotDoneAgain(t *testing.T) {
	var clock atomic.Int64
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	d := newHandlerRig(t, options{rig: hubtest.Options{Hub: hub.Options{Now: now}},
		change: func(o *rokid.Options) { o.Heartbeat = time.Hour }})
	other := d.Add(t, "echo", map[string]string{"switch": "true"})
	long := d.AddScript(t, map[string]string{"max_chars": "12"}, say(strings.Split("第一句话。第二句话。第三句话。第四句话。第五句话。", "")...))
	key := d.key
	post := func(name, text string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url,
			strings.NewReader(turn(agent, wearer, sessionKey, text, "")))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		if name != "" {
			req.Header.Set("Traceparent", name)
		}
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		defer res.Body.Close()
		return raw(t, res)
	}
	named := 0
	// twice sends a request that the network soon delivers again: with a request id, or within 300
	// ms without one.
	twice := func(text, want string) {
		t.Helper()
		clock.Add(1000)
		name, gap := "", int64(100)
		if named++; named%2 == 0 {
			name, gap = fmt.Sprintf("00-%032x-%016x-01", named, named), 1500
		}
		first := listen(t, strings.NewReader(post(name, text)))
		clock.Add(gap)
		again := listen(t, strings.NewReader(post(name, text)))
		if !strings.HasPrefix(first.text, want) {
			t.Errorf("%s: told %q, want %q", text, first.text, want)
		}
		if again.text != first.text || !slices.Equal(again.commands, first.commands) {
			t.Errorf("%s: told first %q, and then %q", text, first.text, again.text)
		}
	}
	for range 2 { // with ids, and without
		code := d.invite(t, 1).Code
		twice("绑定 "+code, "绑定成功")
		twice("切换到 "+other.Name, "已切换到 "+other.Name)
		twice("状态", "当前机器人："+other.Name)
		twice("解绑", "确定要解除绑定吗")
		twice("确认解绑", "已解除与 "+other.Name)
		twice("你好", askedForPhoto)
		twice("你好", askedForPhoto)
	}
	key = d.keyFor(t, long.Number)
	for _, page := range [][2]string{{"说吧", "第一句话。第二句话。…"}, {"继续", "第三句话。第四句话。…"}, {"继续", "第五句话。"},
		{"继续", "第一句话。第二句话。…"}} {
		twice(page[0], page[1])
	}
	// A request that is delivered again while it runs waits for the answer.
	clock.Add(1000)
	told := make([]string, 8)
	var all sync.WaitGroup
	for i := range told {
		all.Go(func() { told[i] = post("00-0000000000000000000000000000000a-000000000000000a-01", "继续") })
	}
	all.Wait()
	for _, again := range told {
		if again != told[0] || !strings.Contains(again, "第三句话") {
			t.Errorf("of several at once, told\n%s", again)
		}
	}
}
