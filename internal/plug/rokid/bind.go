package rokid

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"patchbay/internal/account"
	"patchbay/internal/qr"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// bind binds an unknown wearer to a bot. The wearer photographs the QR code that the bot's owner
// shows, or says the six digits beside it. The dialogue follows EyeClaw
// (docs/SECURE_BINDING_FLOW.md).
func (h *Handler) bind(ctx context.Context, c *call) {
	c.stream.start(h.QuietStart)
	code := spokenCode(c.Text)
	if said := normalizeSpeech(c.Text); sixDigits.MatchString(said) {
		code = said // the digits alone: an unbound wearer has no bot that they could be a question for
	}
	if code != "" {
		bot, err := h.Accounts.RedeemCode(ctx, c.wearer, c.AgentID, code)
		h.reportBinding(ctx, c, bot, err)
		return
	}
	if len(c.Images) > 0 {
		h.bindByPhoto(ctx, c)
		return
	}
	h.askForPhoto(ctx, c)
}

// askForPhoto tells a wearer what to do and makes the glasses take the photo.
func (h *Handler) askForPhoto(ctx context.Context, c *call) {
	if err := h.Accounts.AwaitPhoto(ctx, c.wearer, c.AgentID, c.MessageID); err != nil {
		h.internalError(ctx, c, err)
		return
	}
	h.metrics.bindings.WithLabelValues("asked").Inc()
	site := h.PublicURL
	if site == "" {
		site = msgOurSite.In(c.lang)
	}
	c.stream.text(msgBindFirst.In(c.lang, site))                      //nolint:errcheck // finish follows either way
	c.stream.command(&talk.Command{Name: talk.CommandTakePhoto}, nil) //nolint:errcheck // the same
	c.stream.finish("", nil)
}

// bindByPhoto reads the QR code of a photo. An unrequested photo without a code of ours is answered
// like any first turn: it may come from a wearer who has just been unbound.
func (h *Handler) bindByPhoto(ctx context.Context, c *call) {
	asked, err := h.Accounts.TakePhotoWait(ctx, c.wearer, c.AgentID, c.MessageID)
	if err != nil {
		h.internalError(ctx, c, err)
		return
	}
	im, say := h.loadImage(ctx, c, h.BindingPhotos, c.Images[len(c.Images)-1])
	if im == nil {
		c.reply(say)
		return
	}
	texts, err := qr.Decode(ctx, im.Data)
	if ctx.Err() != nil {
		c.stream.stop()
		return
	}
	for _, text := range texts {
		if token, ok := account.ParseToken(text); ok {
			bot, err := h.Accounts.RedeemToken(ctx, c.wearer, c.AgentID, token)
			h.reportBinding(ctx, c, bot, err)
			return
		}
	}
	switch {
	case len(texts) > 0: // a code, but not one of ours
		h.reportBinding(ctx, c, store.Bot{}, account.ErrInvitationUnknown)
	case asked:
		h.Logger.InfoContext(ctx, "no QR code was found in a photo", "cause", err, "bytes", len(im.Data),
			"type", im.MIME)
		h.metrics.bindings.WithLabelValues("unreadable").Inc()
		c.reply(msgNotRead.In(c.lang))
	default:
		h.askForPhoto(ctx, c)
	}
}

// reportBinding answers with the result of an attempt to bind.
func (h *Handler) reportBinding(ctx context.Context, c *call, bot store.Bot, err error) {
	if err == nil {
		h.metrics.bindings.WithLabelValues("bound").Inc()
		h.Logger.InfoContext(ctx, "a wearer was bound", "bot", bot.Number, "publisher", c.wearer.Publisher)
		c.reply(msgBound.In(c.lang, bot.Name))
		return
	}
	if ctx.Err() != nil {
		c.stream.stop()
		return
	}
	say, outcome := msgBindFailed.In(c.lang), "failed"
	elsewhere, isElsewhere := errors.AsType[*account.BoundElsewhere](err)
	switch {
	case errors.Is(err, account.ErrInvitationUnknown):
		say, outcome = msgBadToken.In(c.lang), "unknown"
	case errors.Is(err, account.ErrInvitationUsed):
		say, outcome = msgUsedToken.In(c.lang), "used"
	case errors.Is(err, account.ErrInvitationExpired):
		say, outcome = msgOldToken.In(c.lang), "expired"
	case errors.Is(err, account.ErrBotTaken):
		say, outcome = msgBotTaken.In(c.lang), "taken"
	case errors.Is(err, account.ErrTooManyTries):
		say, outcome = msgTooMany.In(c.lang), "too_many"
	case isElsewhere:
		say, outcome = msgBoundBefore.In(c.lang, elsewhere.Bot.Name), "bound_before"
	}
	h.metrics.bindings.WithLabelValues(outcome).Inc()
	h.Logger.WarnContext(ctx, "a wearer was not bound", "cause", err)
	c.reply(say)
}

// Commands of a bound wearer to the hub itself, in Chinese and English; phrases.go has the
// translated ones. They match whole sentences only, so that a question that begins like one of them
// still reaches the bot.
var (
	bindPhrase    = regexp.MustCompile(`(?i)^(?:请)?(?:绑定|bind)(?:码|code)?[:：是为]?(\d{6})$`)
	unbindPhrase  = regexp.MustCompile(`(?i)^(?:解绑|解除绑定|unbind)$`)
	confirmPhrase = regexp.MustCompile(`(?i)^(?:确认解绑|确认解除绑定|confirmunbind)$`)
	switchPhrase  = regexp.MustCompile(`(?i)^(?:切换到|切换为|switch to)\s*(.{1,60})$`)
	sixDigits     = regexp.MustCompile(`^\d{6}$`)
	statusPhrase  = regexp.MustCompile(`(?i)^(?:状态|当前状态|status)$`)
)

// wearerCommand executes a command that a bound wearer gives to the hub, and reports whether the
// text was a command.
func (h *Handler) wearerCommand(ctx context.Context, c *call, bot store.Bot) bool {
	said := normalizeSpeech(c.Text)
	switch {
	case spokenCode(c.Text) != "":
		h.reportBinding(ctx, c, bot, &account.BoundElsewhere{Bot: bot})
	case unbindPhrase.MatchString(said) || sayUnbind.Said(c.Text):
		c.reply(msgUnbindSure.In(c.lang))
	case confirmPhrase.MatchString(said) || sayConfirm.Said(c.Text):
		if err := h.Accounts.Unbind(ctx, c.wearer); err != nil && !errors.Is(err, store.ErrNotFound) {
			h.internalError(ctx, c, err)
			return true
		}
		h.metrics.bindings.WithLabelValues("unbound").Inc()
		c.reply(msgUnbound.In(c.lang, bot.Name))
	case statusPhrase.MatchString(said) || sayStatus.Said(c.Text):
		state := msgOnline
		if !h.Hub.IsReachable(bot) {
			state = msgAway
		}
		c.reply(msgStatus.In(c.lang, bot.Name, state.In(c.lang)))
	default:
		return h.switchBot(ctx, c, bot)
	}
	return true
}

// switchBot binds the wearer to another bot if they named one that they may use.
func (h *Handler) switchBot(ctx context.Context, c *call, bot store.Bot) bool {
	name := spokenBot(c.Text)
	if name == "" {
		return false
	}
	other, err := h.Accounts.SwitchBot(ctx, c.wearer, bot, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false // "switch to plan B" may be meant for the bot
	case errors.Is(err, account.ErrBotTaken):
		c.reply(msgBotTaken.In(c.lang))
	case err != nil:
		h.internalError(ctx, c, err)
	default:
		c.reply(msgSwitched.In(c.lang, other.Name))
	}
	return true
}

// maxBotName is the maximum number of characters of a bot's name that is looked up.
const maxBotName = 60

// spokenBot returns the name of a bot in "switch to parrot", in any language, or "" if there is
// none.
func spokenBot(text string) string {
	if m := switchPhrase.FindStringSubmatch(strings.TrimRight(strings.TrimSpace(text), "。.!！")); m != nil {
		return strings.TrimSpace(m[1])
	}
	if name, ok := saySwitch.SaidWith(text); ok && utf8.RuneCountInString(name) <= maxBotName {
		return name
	}
	return ""
}

// spokenCode returns the six digits in "绑定 123456" or "bind 123456", in any language and in any
// form that speech recognition may write, or "" if there are none.
func spokenCode(text string) string {
	said := normalizeSpeech(text)
	if m := bindPhrase.FindStringSubmatch(said); m != nil {
		return m[1]
	}
	if code, ok := sayBind.SaidWith(text); ok && sixDigits.MatchString(normalizeSpeech(code)) {
		return normalizeSpeech(code)
	}
	return ""
}

// normalizeSpeech removes differences that speech recognition introduces: spaces, punctuation and
// digits written as words.
func normalizeSpeech(text string) string {
	var b strings.Builder
	for _, r := range text {
		if i := strings.IndexRune(" \t\n\u3000,，、-。.!！?？", r); i >= 0 {
			continue
		}
		if r >= '０' && r <= '９' {
			r = r - '０' + '0'
		}
		if d, ok := spokenDigits[r]; ok {
			r = d
		}
		b.WriteRune(r)
	}
	return b.String()
}

var spokenDigits = map[rune]rune{
	'零': '0', '〇': '0', '一': '1', '幺': '1', '二': '2', '两': '2', '三': '3', '四': '4',
	'五': '5', '六': '6', '七': '7', '八': '8', '九': '9',
}
