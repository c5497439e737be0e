package qr

import "strconv"

// Side is the width of the code with its quiet zone, in modules.
func (c *Code) Side() int { return c.size + 2*QuietZone }

// Path returns the dark modules as the path of an SVG that is [Code.Side] units wide: each run of
// modules in a row is a rectangle. The background has to be white.
func (c *Code) Path() string {
	var out []byte
	for y := range c.size {
		for x := 0; x < c.size; x++ {
			if !c.Dark(x, y) {
				continue
			}
			from := x
			for c.Dark(x, y) {
				x++
			}
			out = append(out, 'M')
			out = strconv.AppendInt(out, int64(from+QuietZone), 10)
			out = append(out, ' ')
			out = strconv.AppendInt(out, int64(y+QuietZone), 10)
			out = append(out, 'h')
			out = strconv.AppendInt(out, int64(x-from), 10)
			out = append(out, "v1h-"...)
			out = strconv.AppendInt(out, int64(x-from), 10)
			out = append(out, 'z')
		}
	}
	return string(out)
}
