package qr

import (
	"fmt"
	"io"
	"strings"
)

// TerminalOptions say how [Code.Terminal] prints.
type TerminalOptions struct {
	// Plain does without colours: for NO_COLOR, and for what is no terminal.
	// It prints light modules as filled blocks, which is right where text is light
	// on dark; elsewhere the code comes out in negative, which most readers take,
	// [Decode] among them.
	Plain bool
}

// Black on white from the fixed part of the 256 colours: the first sixteen are
// often changed by themes.
const (
	blackOnWhite = "\x1b[38;5;16;48;5;231m"
	resetColours = "\x1b[0m"
)

// Terminal prints the code with its quiet zone, two modules to a character, so
// that it comes out square: Size()+8 columns by half as many lines. Unless it is
// plain, colours make it black on white on dark and light terminals alike.
func (c *Code) Terminal(w io.Writer, o TerminalOptions) error {
	// What is inked is drawn in the text's own colour.
	inked, before, after := c.Dark, blackOnWhite, resetColours
	if o.Plain {
		inked, before, after = func(x, y int) bool { return !c.Dark(x, y) }, "", ""
	}
	var b strings.Builder
	for y := -QuietZone; y < c.size+QuietZone; y += 2 {
		b.WriteString(before)
		for x := -QuietZone; x < c.size+QuietZone; x++ {
			b.WriteRune(halfBlock(inked(x, y), inked(x, y+1)))
		}
		b.WriteString(after + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("qr: printing: %w", err)
	}
	return nil
}

func halfBlock(top, bottom bool) rune {
	switch {
	case top && bottom:
		return '█'
	case top:
		return '▀'
	case bottom:
		return '▄'
	}
	return ' '
}
