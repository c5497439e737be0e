package qr

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
)

func TestEncodeThenDecode(t *testing.T) {
	for _, text := range []string{
		"x",
		"0123456789012345678901234567890123456789",
		"3qk9VYxT0cM7hJwLr2uZ8A",
		sceneText,
		"绑定令牌：小龙虾",
		"Grüße, 😀",
		strings.Repeat("long ", 200),
		strings.Repeat("z", 2331),
	} {
		c, err := Encode(text)
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		var b bytes.Buffer
		if err := c.PNG(&b, 4); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
		got, err := Decode(t.Context(), b.Bytes())
		if err != nil || len(got) != 1 || got[0] != text {
			t.Errorf("%.20q: decoded as %.40q, %v", text, got, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("z", 2332), strings.Repeat("汉", 1000)} {
		if c, err := Encode(text); !errors.Is(err, ErrNotEncodable) || c != nil {
			t.Errorf("%.10q, %d bytes: got %v, %v", text, len(text), c, err)
		}
	}
}

func TestImage(t *testing.T) {
	c, err := Encode("x")
	if err != nil {
		t.Fatal(err)
	}
	if c.size != 21 {
		t.Errorf("size is %d, want 21", c.size)
	}
	for scale, want := range map[int]int{3: 29 * 3, 1: 29, 0: 29, -5: 29, 1000: 29 * maxScale} {
		if got := c.Image(scale).Bounds(); got != image.Rect(0, 0, want, want) {
			t.Errorf("scale %d: bounds are %v, want a side of %d", scale, got, want)
		}
	}
	m := c.Image(2)
	dark := func(x, y int) bool { return color.GrayModel.Convert(m.At(x, y)).(color.Gray).Y == 0 }
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			if got, want := dark(x, y), c.Dark(x/2-QuietZone, y/2-QuietZone); got != want {
				t.Fatalf("pixel %d,%d is dark: %v, want %v", x, y, got, want)
			}
		}
	}
	if !c.Dark(0, 0) || c.Dark(7, 7) || !c.Dark(20, 0) || c.Dark(-1, 0) || c.Dark(21, 0) {
		t.Error("the corner squares are not where they belong")
	}
	var b bytes.Buffer
	if err := c.PNG(&b, 2); err != nil {
		t.Fatal(err)
	}
	if conf, err := png.DecodeConfig(&b); err != nil || conf.Width != 58 {
		t.Errorf("PNG: %v, %v", conf, err)
	}
}

// screen renders terminal output, 4×8 pixels per character. ink and paper are the default colours.
func screen(t *testing.T, printed string, ink, paper color.Gray) image.Image {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	width := 0
	for i, l := range lines {
		if rest, ok := strings.CutPrefix(l, blackOnWhite); ok {
			ink, paper = color.Gray{}, color.Gray{Y: 255}
			lines[i], ok = strings.CutSuffix(rest, resetColours)
			if !ok {
				t.Errorf("line %d does not reset its colours", i)
			}
		}
		width = max(width, len([]rune(lines[i])))
	}
	m := image.NewGray(image.Rect(0, 0, width*4, len(lines)*8))
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			r := []rune(lines[y/8])[x/4]
			top := y%8 < 4
			on := r == '█' || r == '▀' && top || r == '▄' && !top
			if m.SetGray(x, y, paper); on {
				m.SetGray(x, y, ink)
			}
		}
	}
	return m
}

func TestTerminal(t *testing.T) {
	white, black := color.Gray{Y: 230}, color.Gray{Y: 20}
	for _, text := range []string{"x", sceneText} {
		c, err := Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []TerminalOptions{{}, {Plain: true}} {
			var b strings.Builder
			if err := c.Terminal(&b, o); err != nil {
				t.Fatal(err)
			}
			if o.Plain && strings.Contains(b.String(), "\x1b") {
				t.Error("plain, and yet with escapes")
			}
			lines := strings.Count(b.String(), "\n")
			if want := (c.size + 2*QuietZone + 1) / 2; lines != want {
				t.Errorf("%d lines, want %d", lines, want)
			}
			for name, m := range map[string]image.Image{
				"dark":  screen(t, b.String(), white, black),
				"light": screen(t, b.String(), black, white),
			} {
				got, err := Decode(t.Context(), asPNG(t, m))
				if err != nil || len(got) != 1 || got[0] != text {
					t.Errorf("%+v on a %s terminal: read %q, %v", o, name, got, err)
				}
			}
		}
	}
}

type failing struct{}

var errFull = errors.New("disk full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrors(t *testing.T) {
	c, err := Encode("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PNG(failing{}, 1); !errors.Is(err, errFull) {
		t.Errorf("PNG: %v", err)
	}
	if err := c.Terminal(failing{}, TerminalOptions{}); !errors.Is(err, errFull) {
		t.Errorf("Terminal: %v", err)
	}
}
