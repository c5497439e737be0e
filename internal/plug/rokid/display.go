package rokid

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/plain"
	"patchbay/internal/talk"
)

// Settings are an owner's settings for a bot's answers on glasses.
type Settings struct {
	// Plain lists what is removed from answers because a head-up display cannot show it:
	// markdown, urls, code, emoji. Empty means markdown and code; "none" means nothing.
	Plain []string `json:"plain,omitempty"`
	// MaxChars is the page size in characters; the wearer says "more" for the next page. 0 means
	// no limit.
	MaxChars int `json:"max_chars,omitempty"`
	// QuietStart sends no comment before the first event. It is for bots whose answers begin with
	// navigation: the platform was seen to ignore take_navigation after a comment or an answer
	// event (davexxx1214/openclaw-lingzhu-skill at 176fde9,
	// EasyAR-WebAR-Demo/lingzhu-server/README.md). Nil means the server's setting.
	QuietStart *bool `json:"quiet_start,omitempty"`
	// WaitingText is sent once if the first piece takes long. Nil means the server's setting.
	WaitingText *string `json:"waiting_text,omitempty"`
	// Recall adds handling_required and is_recall to commands. Some bridges send them
	// (davexxx1214/openclaw-lingzhu-skill at 3ec283a, skill/extension/src/transform.ts); the
	// documentation does not have them.
	Recall *bool `json:"recall,omitempty"`
	// PushKey is the owner's key for the platform's push service. With it, late answers are pushed
	// to the glasses.
	PushKey string `json:"push_key,omitempty" secret:"true"`
}

var plainNames = []string{"markdown", "urls", "code", "emoji", "none"}

// Messages for invalid settings.
const (
	msgPlainNames = i18n.Message("plain is a list of markdown, urls, code, emoji, or none")
	msgMaxChars   = i18n.Message("max_chars is 0 for no limit, or at least 10")
)

// Validate returns an error for the first invalid value.
func (s *Settings) Validate() error {
	for _, p := range s.Plain {
		if !slices.Contains(plainNames, p) {
			return msgPlainNames.Errorf()
		}
	}
	if s.MaxChars < 0 || s.MaxChars > 0 && s.MaxChars < 10 {
		return msgMaxChars.Errorf()
	}
	return nil
}

func (s *Settings) filter(lang i18n.Lang) *plain.Filter {
	removed := s.Plain
	if len(removed) == 0 {
		removed = []string{"markdown", "code"}
	}
	return plain.NewFilter(plain.Options{
		Markdown: slices.Contains(removed, "markdown"),
		URLs:     slices.Contains(removed, "urls"),
		Code:     slices.Contains(removed, "code"),
		Emoji:    slices.Contains(removed, "emoji"),
		Lang:     lang,
	})
}

// display writes a bot's events to the stream in the form that the glasses show.
type display struct {
	stream    *stream
	lang      i18n.Lang
	filter    *plain.Filter
	pager     *plain.Pager
	recall    *bool
	suggest   []string
	hasText   bool            // text of the answer has arrived
	paginated bool            // an answer can have more than one page
	trailer   strings.Builder // text after the end of the answer
}

func newDisplay(c *call, s Settings) *display {
	return &display{stream: c.stream, lang: c.lang, filter: s.filter(c.lang), pager: plain.NewPager(s.MaxChars),
		recall: s.Recall, paginated: s.MaxChars > 0}
}

// onEvent writes one event to the stream.
func (p *display) onEvent(e talk.Event) error {
	switch e.Kind {
	case talk.KindText:
		p.hasText = true
		return p.stream.text(p.pager.Write(p.filter.Write(e.Text)))
	case talk.KindNote:
		return p.stream.text(e.Text)
	case talk.KindCommand:
		return p.stream.command(e.Command, p.recall)
	case talk.KindSuggest:
		p.suggest = e.Suggest
	}
	return nil
}

// appendTrailer adds text after the answer; the page size does not apply to it.
func (p *display) appendTrailer(text string) { p.trailer.WriteString(text) }

// showRest shows the next page of an earlier answer.
func (p *display) showRest(rest string) {
	p.paginated = true
	p.stream.text(p.pager.Write(rest)) //nolint:errcheck // finish follows either way
}

func (p *display) hasAnswered() bool { return p.hasText }

// finish returns the last text of this page and the rest of the answer for the next page.
func (p *display) finish() (words, rest string) {
	words = p.pager.Write(p.filter.Flush()) + p.pager.Flush()
	rest = p.pager.Rest()
	if rest != "" {
		words += msgMore.In(p.lang)
	}
	return words + p.trailer.String(), rest
}

const (
	// pageTTL is the time in which a wearer can ask for the next page.
	pageTTL = 10 * time.Minute
	// pageWriteTimeout is the timeout for storing the rest of an answer.
	pageWriteTimeout = 5 * time.Second
)

var morePhrase = regexp.MustCompile(`(?i)^(?:继续|更多|下一页|接着说|more|goon|continue|next)$`)

// nextPage returns the rest of the last answer if the wearer asks for it, otherwise "".
func (h *Handler) nextPage(ctx context.Context, c *call, bot int64, person string) string {
	if len(c.Images) > 0 || !morePhrase.MatchString(normalizeSpeech(c.Text)) && !sayMore.Said(c.Text) {
		return ""
	}
	rest, err := h.Hub.Store.Conversations.Remainder(ctx, bot, person, time.Now().Add(-pageTTL))
	if err != nil {
		h.Logger.ErrorContext(ctx, "the rest of an answer was not found", "error", err)
	}
	return rest
}

// loadImage returns a picture that a wearer sent, or nil and the message to answer with instead.
func (h *Handler) loadImage(ctx context.Context, c *call, from *fetch.Fetcher, addr string) (*talk.Image, string) {
	if !h.quota.allow(c.person()) {
		h.metrics.refused.WithLabelValues("pictures").Inc()
		return nil, msgEnough.In(c.lang)
	}
	get := func() (*fetch.Image, error) { return from.Image(ctx, addr) }
	if fetch.IsDataURI(addr) {
		get = func() (*fetch.Image, error) { return fetch.DataURI(addr, h.MaxImageBody) }
	}
	im, err := get()
	if err == nil {
		return &talk.Image{MIME: im.MIME, Data: im.Data}, ""
	}
	h.Logger.WarnContext(ctx, "a picture was not fetched", "cause", err, "key", c.principal.Key.ID)
	say := msgNoPicture
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		switch e.Reason {
		case fetch.NotAnImage:
			say = msgBadImage
		case fetch.TooLarge:
			say = msgBigImage
		}
	}
	return nil, say.In(c.lang)
}
