package fit

import "math/bits"

// orderSeed is the seed of the order of batches (TrainingConfig in fsrs-rs src/training.rs).
const orderSeed = 2023

// shuffler shuffles as the reference does, so that the same reviews lead to the same weights there
// and here. (In another order they predict as well, and differ in the second digit.) Its numbers
// are those of ChaCha with 12 rounds (RFC 8439, section 2.3, but with a block counter of 64 bits
// and a nonce of 0), the generator of the crate rand 0.9 (StdRng).
type shuffler struct {
	state [16]uint32
	block [16]uint32
	used  int
}

// newShuffler returns a shuffler. The key is made of the seed by the generator PCG-XSH-RR-64/32 of
// O'Neill, as SeedableRng::seed_from_u64 does in the crate rand_core 0.9.
func newShuffler(seed uint64) *shuffler {
	s := &shuffler{state: [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, used: 16}
	for i := 4; i < 12; i++ {
		seed = seed*6364136223846793005 + 11634580027462260723
		s.state[i] = bits.RotateLeft32(uint32((seed>>18^seed)>>27), -int(seed>>59))
	}
	return s
}

// next returns the next number of the generator.
func (s *shuffler) next() uint32 {
	if s.used == len(s.block) {
		s.fill()
	}
	s.used++
	return s.block[s.used-1]
}

const rounds = 12

// fill computes the next block.
func (s *shuffler) fill() {
	b := s.state
	quarter := func(i, j, k, l int) {
		b[i] += b[j]
		b[l] = bits.RotateLeft32(b[l]^b[i], 16)
		b[k] += b[l]
		b[j] = bits.RotateLeft32(b[j]^b[k], 12)
		b[i] += b[j]
		b[l] = bits.RotateLeft32(b[l]^b[i], 8)
		b[k] += b[l]
		b[j] = bits.RotateLeft32(b[j]^b[k], 7)
	}
	for range rounds / 2 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	for i := range b {
		s.block[i] = b[i] + s.state[i]
	}
	s.used = 0
	if s.state[12]++; s.state[12] == 0 {
		s.state[13]++
	}
}

// below returns a number from 0 to n-1. Like the crate, it accepts that a few numbers are more
// likely by 2^-32.
func (s *shuffler) below(n uint32) uint32 {
	high, low := bits.Mul32(s.next(), n)
	if low > -n {
		more, _ := bits.Mul32(s.next(), n)
		if _, carry := bits.Add32(low, more, 0); carry > 0 {
			high++
		}
	}
	return high
}

// shuffle shuffles a list: each element in turn is exchanged with one up to itself. One random
// number is drawn for as many elements as fit into it.
func (s *shuffler) shuffle(list []int) {
	var drawn, left uint32
	if len(list) > 0 {
		left = 1 // the first element stays; no number is drawn for it
	}
	for i := range list {
		n := uint32(i + 1)
		if left == 0 {
			var product uint32
			product, left = productFrom(n)
			drawn = s.below(product)
		}
		left--
		at := drawn
		if left > 0 {
			at, drawn = drawn%n, drawn/n
		}
		list[i], list[at] = list[at], list[i]
	}
}

// productFrom returns the largest product n·(n+1)·… of 32 bits, and the number of its factors.
func productFrom(n uint32) (product, factors uint32) {
	product, factors = n, 1
	for {
		high, low := bits.Mul32(product, n+factors)
		if high > 0 {
			return product, factors
		}
		product = low
		factors++
	}
}
