package rokid

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/plug/rokid/hud"
	"patchbay/internal/talk"
)

// Settings are what a bot's owner can choose about its answers on glasses.
type Settings struct {
	// Plain lists what is taken out of answers, since a head-up display cannot
	// show it: markdown, urls, code, emoji. Empty: markdown and code; "none":
	// nothing.
	Plain []string `json:"plain,omitempty"`
	// MaxChars is how many characters are shown before the wearer has to say
	// "more"; 0: all of them.
	MaxChars int `json:"max_chars,omitempty"`
	// QuietStart sends no comment before the first event, for bots whose answers
	// begin with navigation: some versions of the app ignore a command that
	// follows anything else. Nil: as the server is configured.
	QuietStart *bool `json:"quiet_start,omitempty"`
	// WaitingText is said once when the first piece takes long. Nil: as the
	// server is configured.
	WaitingText *string `json:"waiting_text,omitempty"`
	// Recall adds handling_required and is_recall to commands, which some
	// bridges send and the platform's documents do not know.
	Recall *bool `json:"recall,omitempty"`
	// PushKey is the owner's key to the platform's push service. With it, late
	// answers are pushed to the glasses.
	PushKey string `json:"push_key,omitempty" secret:"true"`
}

var plainNames = []string{"markdown", "urls", "code", "emoji", "none"}

// What is wrong with settings.
var (
	sayPlainNames = talk.Say{Zh: "plain 是由 markdown、urls、code、emoji 组成的列表，或者是 none", En: "plain is a list of markdown, urls, code, emoji, or none"}
	sayMaxChars   = talk.Say{Zh: "max_chars 是 0 表示不限，否则至少是 10", En: "max_chars is 0 for no limit, or at least 10"}
)

// Validate finds values that cannot be.
func (s *Settings) Validate() error {
	for _, p := range s.Plain {
		if !slices.Contains(plainNames, p) {
			return sayPlainNames.Wrong()
		}
	}
	if s.MaxChars < 0 || s.MaxChars > 0 && s.MaxChars < 10 {
		return sayMaxChars.Wrong()
	}
	return nil
}

func (s *Settings) filter(lang talk.Lang) *hud.Filter {
	plain := s.Plain
	if len(plain) == 0 {
		plain = []string{"markdown", "code"}
	}
	return hud.NewFilter(hud.Options{
		Markdown: slices.Contains(plain, "markdown"),
		URLs:     slices.Contains(plain, "urls"),
		Code:     slices.Contains(plain, "code"),
		Emoji:    slices.Contains(plain, "emoji"),
		Lang:     lang,
	})
}

// display turns a bot's events into what the glasses show.
type display struct {
	stream  *stream
	lang    talk.Lang
	filter  *hud.Filter
	pager   *hud.Pager
	recall  *bool
	suggest []string
	shown   bool            // words of the answer have come
	pages   bool            // an answer can have more than one page
	tail    strings.Builder // words to be said at the very end
}

func newDisplay(c *call, s Settings) *display {
	return &display{stream: c.stream, lang: c.lang, filter: s.filter(c.lang), pager: hud.NewPager(s.MaxChars), recall: s.Recall, pages: s.MaxChars > 0}
}

// event shows one event.
func (p *display) event(e talk.Event) error {
	switch e.Kind {
	case talk.KindText:
		p.shown = true
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

// add puts our own words behind the answer, whatever its length.
func (p *display) add(text string) { p.tail.WriteString(text) }

// page shows the next page of an earlier answer.
func (p *display) page(rest string) {
	p.pages = true
	p.stream.text(p.pager.Write(rest)) //nolint:errcheck // finish follows either way
}

func (p *display) answered() bool { return p.shown }

// last is the end of what is shown, and what is left for the next page.
func (p *display) last() (words, rest string) {
	words = p.pager.Write(p.filter.Flush()) + p.pager.Flush()
	rest = p.pager.Rest()
	if rest != "" {
		words += sayMore.In(p.lang)
	}
	return words + p.tail.String(), rest
}

const (
	// pageLife is how long a wearer can ask for more of an answer.
	pageLife = 10 * time.Minute
	// pageWrite bounds keeping the rest of an answer.
	pageWrite = 5 * time.Second
)

var morePhrase = regexp.MustCompile(`(?i)^(?:继续|更多|下一页|接着说|more|goon|continue|next)$`)

// nextPage is what is left of the last answer, if the wearer asks for it.
func (d *Door) nextPage(ctx context.Context, c *call, bot int64, person string) string {
	if len(c.Images) > 0 || !morePhrase.MatchString(squeeze(c.Text)) {
		return ""
	}
	rest, err := d.Board.Store.Conversations.Rest(ctx, bot, person, time.Now().Add(-pageLife))
	if err != nil {
		d.Logger.ErrorContext(ctx, "the rest of an answer was not found", "error", err)
	}
	return rest
}

// picture gets a picture that a wearer sent, or the words to say instead.
func (d *Door) picture(ctx context.Context, c *call, from *fetch.Fetcher, addr string) (*talk.Image, string) {
	if !d.quota.take(c.person()) {
		d.metrics.refused.WithLabelValues("pictures").Inc()
		return nil, sayEnough.In(c.lang)
	}
	get := func() (*fetch.Image, error) { return from.Image(ctx, addr) }
	if fetch.IsDataURI(addr) {
		get = func() (*fetch.Image, error) { return fetch.DataURI(addr, d.MaxImageBody) }
	}
	im, err := get()
	if err == nil {
		return &talk.Image{MIME: im.MIME, Data: im.Data}, ""
	}
	d.Logger.WarnContext(ctx, "a picture was not fetched", "cause", err, "key", c.principal.Key.ID)
	say := sayNoPicture
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		switch e.Reason {
		case fetch.NotAnImage:
			say = sayBadImage
		case fetch.TooLarge:
			say = sayBigImage
		}
	}
	return nil, say.In(c.lang)
}
