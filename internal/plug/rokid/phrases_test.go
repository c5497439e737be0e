package rokid_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
)

// What bound wearers can say to the hub is recognized in every language, and is what the texts tell
// them to say.
func TestPhrasesInAllLanguages(t *testing.T) {
	const (
		bind    = i18n.Message("bind %s")
		unbind  = i18n.Message("say\x04unbind")
		confirm = i18n.Message("say\x04confirm unbind")
		to      = i18n.Message("say\x04switch to %s")
		status  = i18n.Message("say\x04status")
		more    = i18n.Message("say\x04more")

		sure = i18n.Message("Do you want to unbind? You will have to scan a code again. Say “confirm unbind”.")
		page = i18n.Message("… say “more” to go on")
	)
	long := "第一句话。第二句话。第三句话。"
	for _, l := range i18n.Languages() {
		if !strings.Contains(sure.In(l), confirm.In(l)) || !strings.Contains(page.In(l), more.In(l)) {
			t.Errorf("%s: %q and %q say something else than %q and %q", l, sure.In(l), page.In(l), confirm.In(l), more.In(l))
		}
		d := newHandlerRig(t, options{})
		other := d.Add(t, "echo", map[string]string{"switch": "true", "shared": "true"})
		for _, c := range []struct{ say, want string }{
			{bind.In(l, d.invite(t, 1).Code), "绑定成功"},
			{status.In(l), "当前机器人：" + d.bot(t, 1).Name},
			{to.In(l, other.Name) + "。", "已切换到 " + other.Name},
			{to.In(l, "nobody"), to.In(l, "nobody")}, // is for the bot
			{unbind.In(l), sure.In(i18n.Chinese)},
			{confirm.In(l), "已解除与 " + other.Name},
			{status.In(l), askedForPhoto},
		} {
			if h := d.ask(t, wearer, c.say, ""); !strings.HasPrefix(h.text, c.want) {
				t.Errorf("%s: %q: %q, want %q", l, c.say, h.text, c.want)
			}
		}

		bot := d.AddScript(t, map[string]string{"max_chars": "12"}, say(strings.Split(long, "")...))
		key := d.keyFor(t, bot.Number)
		ask := func(text string) string {
			res := d.send(t, ctx, key, turn(agent, wearer, fmt.Sprint(time.Now().UnixNano()), text, ""))
			return listen(t, res.Body).text
		}
		if first := ask("说吧"); !strings.HasPrefix(first, "第一句话。第二句话。") {
			t.Errorf("first page %q", first)
		}
		if second := ask(more.In(l)); second != "第三句话。" {
			t.Errorf("%s: at %q, %q", l, more.In(l), second)
		}
	}
}
