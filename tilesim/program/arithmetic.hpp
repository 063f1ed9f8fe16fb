// The functions that printed expressions call. Whole numbers have 128 bits; one that needs more throws.

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

struct Int {
  __int128 value = 0;
  bool known = false;
  Int() = default;
  Int(__int128 number) : value(number), known(true) {}
};

inline __int128 checked(bool overflow, __int128 result) {
  if (overflow) throw std::overflow_error("a number of more than 128 bits");
  return result;
}

inline Int operator+(const Int& a, const Int& b) {
  __int128 result;
  const bool overflow = __builtin_add_overflow(a.value, b.value, &result);
  return checked(overflow, result);
}

inline Int operator-(const Int& a, const Int& b) {
  __int128 result;
  const bool overflow = __builtin_sub_overflow(a.value, b.value, &result);
  return checked(overflow, result);
}

inline Int operator*(const Int& a, const Int& b) {
  __int128 result;
  const bool overflow = __builtin_mul_overflow(a.value, b.value, &result);
  return checked(overflow, result);
}

inline Int operator-(const Int& a) { return Int(0) - a; }
inline bool operator<=(const Int& a, const Int& b) { return a.value <= b.value; }
inline bool operator==(const Int& a, const Int& b) { return a.value == b.value; }

struct Shape {
  std::vector<Int> axes;
  bool known = false;
  Shape() = default;
  Shape(std::vector<Int> sizes) : axes(std::move(sizes)), known(true) {}
};

struct Word {
  std::string text;
  bool known = false;
  Word() = default;
  Word(const char* letters) : text(letters), known(true) {}
};

inline bool operator==(const Word& a, const Word& b) { return a.text == b.text; }

inline Int integer(const char* digits) {
  const bool negative = *digits == '-';
  Int result(0);
  for (digits += negative; *digits; ++digits) result = result * 10 + (*digits - '0');
  return negative ? -result : result;
}

inline Int floor_div(const Int& top, const Int& bottom) {
  if (bottom.value == 0) throw std::domain_error("integer division by zero");
  const __int128 quotient = top.value / bottom.value;
  return quotient - (top.value % bottom.value != 0 && (top.value < 0) != (bottom.value < 0));
}

inline Int ceil_div(const Int& top, const Int& bottom) { return -floor_div(-top, bottom); }
inline Int mod(const Int& x, const Int& n) { return x - n * floor_div(x, n); }

inline Int maximum(std::initializer_list<Int> values) {
  return *std::max_element(values.begin(), values.end(), [](const Int& a, const Int& b) { return a.value < b.value; });
}

inline Int minimum(std::initializer_list<Int> values) {
  return *std::min_element(values.begin(), values.end(), [](const Int& a, const Int& b) { return a.value < b.value; });
}

template <class... Rest>
Int maximum(const Int& first, const Rest&... rest) { return maximum({first, Int(rest)...}); }

template <class... Rest>
Int minimum(const Int& first, const Rest&... rest) { return minimum({first, Int(rest)...}); }

inline Int bit_length(const Int& x) {
  int digits = 0;
  for (__int128 rest = x.value < 0 ? (-x).value : x.value; rest; rest >>= 1) ++digits;
  return digits;
}

inline Int power_of_two(const Int& exponent) {
  return checked(exponent.value > 126, static_cast<__int128>(1) << std::min<__int128>(exponent.value, 126));
}

inline Int pow2(const Int& x) { return power_of_two(bit_length(maximum(x - 1, 0))); }
inline Int pow2_floor(const Int& x) { return x <= 0 ? Int(0) : power_of_two(bit_length(x) - 1); }

inline Int rank(const Shape& shape) { return static_cast<__int128>(shape.axes.size()); }

inline Int axis(const Shape& shape, const Int& index) {
  return shape.axes.at(static_cast<size_t>(index.value < 0 ? (index + rank(shape)).value : index.value));
}

// The largest number stands for all that are beyond it.
inline Int elements(const Shape& shape) {
  __int128 count = 1;
  for (const Int& size : shape.axes) {
    if (__builtin_mul_overflow(count, size.value, &count)) {
      count = static_cast<__int128>(~static_cast<unsigned __int128>(0) >> 1);
    }
  }
  return count;
}

inline Int least_axis(const Shape& shape) {
  Int least = shape.axes.empty() ? Int(1) : shape.axes[0];
  for (const Int& size : shape.axes) least = minimum(least, size);
  return least;
}

inline Int greatest_axis(const Shape& shape) {
  Int greatest = shape.axes.empty() ? Int(1) : shape.axes[0];
  for (const Int& size : shape.axes) greatest = maximum(greatest, size);
  return greatest;
}

inline bool same_shape(const Shape& shape, std::initializer_list<Shape> parts) {
  std::vector<Int> whole;
  for (const Shape& part : parts) whole.insert(whole.end(), part.axes.begin(), part.axes.end());
  return shape.axes == whole;
}

inline bool broadcastable(const Shape& first, const Shape& second) {
  auto b = second.axes.rbegin();
  for (auto a = first.axes.rbegin(); a != first.axes.rend() && b != second.axes.rend(); ++a, ++b) {
    if (!(*a == *b) && !(*a == 1) && !(*b == 1)) return false;
  }
  return true;
}

inline bool one_of(const Word& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word.text) != words.end();
}

inline double real(const Int& x) { return static_cast<double>(x.value); }
inline double real(double x) { return x; }
inline double power(double x, double exponent) { return std::pow(x, exponent); }
inline double ln(double x, double otherwise) { return x > 0 ? std::log(x) : otherwise; }
