package rokid_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/qr"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func dataURI(b []byte) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b)
}

// photo returns a picture of a screen with a QR code, as the glasses take it.
func photo(t testing.TB, text string) string {
	t.Helper()
	code, err := qr.Encode(text)
	must(t, err)
	screen := image.NewRGBA(image.Rect(0, 0, 640, 480))
	draw.Draw(screen, screen.Bounds(), image.NewUniform(color.Gray{90}), image.Point{}, draw.Src)
	im := code.Image(6)
	draw.Draw(screen, im.Bounds().Add(image.Pt(200, 120)), im, image.Point{}, draw.Src)
	var b bytes.Buffer
	must(t, jpeg.Encode(&b, screen, &jpeg.Options{Quality: 70}))
	return "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

func (d *handlerRig) ask(t testing.TB, user, text, image string) streamResult {
	t.Helper()
	return listen(t, d.post(t, turn(agent, user, sessionKey, text, image)).Body)
}

func (d *handlerRig) invite(t testing.TB, bot int64) account.Invitation {
	t.Helper()
	inv, err := d.Accounts.Invite(ctx, bot)
	must(t, err)
	return inv
}

const askedForPhoto = "你好！请先在 https://board.example.org 网站上创建或打开机器人页面，查看绑定二维码，然后使用眼镜拍摄二维码完成绑定。"

func TestBindByPhoto(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		d := newHandlerRig(t, options{rig: hubtest.Options{DB: o}})
		text := raw(t, d.post(t, turn(agent, wearer, sessionKey, "你好", "")))
		listen(t, strings.NewReader(text))
		golden(t, "bind.sse", text)

		inv := d.invite(t, 1)
		if h := d.ask(t, wearer, "", photo(t, inv.Token)); h.text != "绑定成功！你现在可以使用 "+d.bot(t, 1).Name+" 了。" {
			t.Fatalf("heard %q", h.text)
		}
		if h := d.ask(t, wearer, "你好吗", ""); h.text != "你好吗" {
			t.Fatalf("after binding: %q", h.text)
		}
		if token, err := d.Store.Bindings.Token(ctx, inv.ID); err != nil || token.Used.IsZero() {
			t.Error("the page that shows the code is not told")
		}
	})
}

func (d *handlerRig) bot(t testing.TB, n int64) store.Bot {
	t.Helper()
	b, err := d.Store.Bots.ByNumber(ctx, n)
	must(t, err)
	return b
}

func TestBindingOutcomes(t *testing.T) {
	d := newHandlerRig(t, options{})
	shared := d.Add(t, "echo", map[string]string{"shared": "true"})
	// Each wearer begins unbound and has been asked for a photo.
	step := func(t *testing.T, user, image, want string) {
		t.Helper()
		if h := d.ask(t, user, "你好", ""); h.text != askedForPhoto || len(h.commands) != 1 ||
			h.commands[0] != "take_photo" {
			t.Fatalf("first turn: %q %v", h.text, h.commands)
		}
		if h := d.ask(t, user, "", image); h.text != want {
			t.Fatalf("heard %q, want %q", h.text, want)
		}
	}
	blank := dataURI(pngBytes(t))
	step(t, "U1", blank, "未能识别二维码，请重新对准二维码后再试。")
	step(t, "U1", photo(t, "https://example.org/menu"), "无效的绑定令牌，请刷新网页后重新扫码。")
	step(t, "U1", photo(t, "AAAAAAAAAAAAAAAAAAAAAA"), "无效的绑定令牌，请刷新网页后重新扫码。")

	inv := d.invite(t, shared.Number)
	step(t, "U1", photo(t, "https://board.example.org/b/"+inv.Token), "绑定成功！你现在可以使用 "+shared.Name+" 了。")
	step(t, "U2", photo(t, inv.Token), "此令牌已被使用，请刷新网页后重新扫码。")
	step(t, "U2", photo(t, d.invite(t, shared.Number).Token), "绑定成功！你现在可以使用 "+shared.Name+" 了。")
	step(t, "U3", photo(t, d.invite(t, 1).Token), "绑定成功！你现在可以使用 "+d.bot(t, 1).Name+" 了。")
	step(t, "U4", photo(t, d.invite(t, 1).Token), "此机器人已被其他用户绑定，请先解绑后再试。")

	// An unrequested photo binds if it shows a valid code; otherwise it starts the dialogue.
	if h := d.ask(t, "U5", "", blank); h.text != askedForPhoto {
		t.Errorf("unasked photo: %q", h.text)
	}
	if h := d.ask(t, "U6", "", photo(t, d.invite(t, shared.Number).Token)); !strings.HasPrefix(h.text, "绑定成功") {
		t.Errorf("unasked photo of a code: %q", h.text)
	}
}

func TestExpiredInvitation(t *testing.T) {
	d := newHandlerRig(t, options{})
	inv := d.invite(t, 1)
	later := account.New(d.Store, d.Box, func() time.Time {
		return time.Now().
			Add(account.InvitationLife + time.Second)
	})
	_, err := later.RedeemToken(ctx, store.Wearer{Publisher: d.Person.ID, UserID: "U"}, agent, inv.Token)
	if err != account.ErrInvitationExpired {
		t.Fatalf("got %v", err)
	}
}

func TestBindBySpokenCode(t *testing.T) {
	d := newHandlerRig(t, options{})
	inv := d.invite(t, 1)
	wrong := "000000"
	if inv.Code == wrong {
		wrong = "111111"
	}
	for i := range 4 {
		if h := d.ask(t, wearer, fmt.Sprintf("绑定 %s %d", wrong[:3], i)+wrong[4:], ""); i > 0 &&
			!strings.HasPrefix(h.text, "无效的绑定令牌") {
			t.Fatalf("wrong code %d: %q", i, h.text)
		}
	}
	spaced := inv.Code[:3] + " " + inv.Code[3:]
	if h := d.ask(t, wearer, "绑定 "+spaced+"。", ""); !strings.HasPrefix(h.text, "绑定成功") {
		t.Fatalf("the good code: %q", h.text)
	}
	// Another wearer may try five times in ten minutes.
	other := d.invite(t, d.Add(t, "echo", nil).Number)
	for range 5 {
		d.ask(t, "guesser", "绑定"+wrong, "")
		wrong = fmt.Sprintf("%06d", mustAtoi(wrong)+1)
	}
	if h := d.ask(t, "guesser", "绑定"+other.Code, ""); h.text != "尝试次数太多，请十分钟后再试。" {
		t.Fatalf("the sixth try: %q", h.text)
	}
	if h := d.ask(t, wearer, "绑定 "+other.Code, ""); !strings.HasPrefix(h.text, "你的灵珠账号已绑定到机器人") {
		t.Fatalf("bound already: %q", h.text)
	}
	// The digits alone are enough, unless somebody is there whom they can be for.
	if h := d.ask(t, wearer, other.Code, ""); !strings.Contains(h.text, other.Code) {
		t.Fatalf("digits for the bot: %q", h.text)
	}
	if h := d.ask(t, "newcomer", other.Code[:3]+" "+other.Code[3:]+"。", ""); !strings.HasPrefix(h.text, "绑定成功") {
		t.Fatalf("the digits alone: %q", h.text)
	}
}

func mustAtoi(s string) int {
	n := 0
	fmt.Sscanf(s, "%d", &n)
	return n
}

func TestWearerCommands(t *testing.T) {
	d := newHandlerRig(t, options{})
	other := d.Add(t, "echo", map[string]string{"switch": "true", "shared": "true"})
	private := d.Add(t, "echo", nil)
	d.ask(t, wearer, "", photo(t, d.invite(t, 1).Token))
	name := d.bot(t, 1).Name
	for _, c := range []struct{ say, want string }{
		{"状态", "当前机器人：" + name + "，在线。"},
		{"切换到" + private.Name, "切换到" + private.Name}, // not offered: the bot is asked
		{"切换到 " + other.Name, "已切换到 " + other.Name + "。"},
		{"状态。", "当前机器人：" + other.Name + "，在线。"},
		{"解绑怎么做", "解绑怎么做"},
		{"解绑", "确定要解除绑定吗？解除后需要重新扫码绑定。请说“确认解绑”。"},
		{"确认解绑", "已解除与 " + other.Name + " 的绑定。"},
		{"你好", askedForPhoto},
	} {
		if h := d.ask(t, wearer, c.say, ""); h.text != c.want {
			t.Errorf("%s: %q, want %q", c.say, h.text, c.want)
		}
	}
}

// TestBindingsBelongToAPublisher checks that the same user id under another publisher is another
// wearer: whoever holds any key can claim any user id.
func TestBindingsBelongToAPublisher(t *testing.T) {
	d := newHandlerRig(t, options{})
	d.ask(t, wearer, "", photo(t, d.invite(t, 1).Token))
	stranger, err := d.Accounts.AddPerson(ctx, "mallory", account.RoleMember, "en", "")
	must(t, err)
	key := d.Key(t, account.NewKey{Person: stranger.ID, Scopes: []string{account.ScopeLingzhu}})
	if h := listen(t, d.send(t, ctx, key, turn(agent, wearer, sessionKey, "hello", "")).Body); h.text != askedForPhoto {
		t.Fatalf("somebody else's key reached the bot: %q", h.text)
	}
}

func TestTwoWearersAtOnce(t *testing.T) {
	d := newHandlerRig(t, options{})
	inv := d.invite(t, 1)
	picture := photo(t, inv.Token)
	texts := make([]string, 4)
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() { texts[i] = d.ask(t, fmt.Sprint("U", i), "", picture).text })
	}
	wg.Wait()
	won := 0
	for _, text := range texts {
		switch {
		case strings.HasPrefix(text, "绑定成功"):
			won++
		case text != "此令牌已被使用，请刷新网页后重新扫码。":
			t.Errorf("heard %q", text)
		}
	}
	if won != 1 {
		t.Errorf("%d wearers were bound by one code: %q", won, texts)
	}
}

// TestBindingSurvivesARestart restarts between the request for a photo and the photo.
func TestBindingSurvivesARestart(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		var inv account.Invitation
		t.Run("before", func(t *testing.T) {
			d := newHandlerRig(t, options{rig: hubtest.Options{DB: o}})
			inv = d.invite(t, 1)
			d.ask(t, wearer, "你好", "")
		})
		t.Run("after", func(t *testing.T) {
			d := newHandlerRig(t, options{rig: hubtest.Options{DB: o}})
			if h := d.ask(t, wearer, "", dataURI(pngBytes(t))); h.text != "未能识别二维码，请重新对准二维码后再试。" {
				t.Errorf("that it was asked for is forgotten: %q", h.text)
			}
			if h := d.ask(t, wearer, "", photo(t, inv.Token)); !strings.HasPrefix(h.text, "绑定成功") {
				t.Errorf("heard %q", h.text)
			}
		})
	})
}
