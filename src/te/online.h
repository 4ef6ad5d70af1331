// Sums of exponentials relative to the maximum of their row, block by block of the row (Milakov, Gimelshein 2018:
// "Online normalizer calculation for softmax"; Dao et al. 2022: "FlashAttention").
#pragma once
#include <string>
#include <vector>

#include "support/error.h"
#include "te/te.h"

namespace tw::te {

/// How rows and columns are cut.
struct OnlineCut {
  int64_t block = 1;            // elements of a row that are there at a time
  int64_t each = 1, width = 1;  // holders that share the columns of a sum, and neighbours that each holds in turn
};

/// A program whose sums along a row need no whole row.
struct Online {
  Program program;
  std::vector<std::string> changed;  // computes of the old program that have other bodies
  std::string wide;                  // the sum with columns
  std::vector<std::string> sums;     // the others
  std::string kept;                  // "R.kept", where terms of that sum are left out; else empty
};

/// With `maximum` M = max_j s_j and sums R = sum_j exp(s_j - M) g_j h, where h does not depend on j, each block n of
/// the row has
///   m_n = max_j s_j, R_n = sum_j exp(s_j - m_n) g_j   over its own j,
/// and two parts of the row combine by m = max(m1, m2), R = R1 exp(m1 - m) + R2 exp(m2 - m): a reduction over a tuple.
/// Terms of the sum with columns that a condition of i and j leaves out, as dropout does, are 0 in "R.kept", like
/// M.exp. Terms that are 0 where they are NaN (rows of which a mask leaves nothing) give a sum of 0. What a sum rounds
/// to 16 bits stays rounded, without h; elements s_j are not rounded to 16 bits on their way. Blocks of which a mask
/// leaves nothing are not needed, where s_j = mask of i and j ? x : -1e30 or less, x is made of a sum of products
/// alone, and the mask leaves each row something. Names: "R.block" [rows, blocks, columns], "M.block", "M.exp" [rows,
/// blocks, block], "R.row" [rows, each, groups, width] with "M.row" [rows, each] and those of other sums. One of the
/// sums has columns, one axis of them. Declines, with the reason, what is not of this form.
Result<Online> online(const Program& program, const std::string& maximum, const OnlineCut& cut);

// ---- Values that are rounded to 16 bits on their way, to be stored, where they need not be stored
// (whole_elements.cpp).

/// Whether functions and quotients have to be as exact as f32 is where they are not rounded to 16 bits any more, or may
/// be `rough` (expr/elementary.h).
enum class Digits : uint8_t { kAll, kAsRounded };
/// `e` without conversions of f32 to 16 bits and back, also of what is chosen in between. A choice between 16-bit
/// floats is rounded once, behind it.
Expr unrounded(const Expr& e, Digits digits = Digits::kAll);

/// Elements of the row whose maximum is `maximum` stay in registers from where they are computed to where they are
/// used: what would round them to 16 bits on the way does not. Returns the computes, other than the maximum, that have
/// another body in `program` then.
std::vector<std::string> keep_elements_whole(Program& program, const std::string& maximum);

}  // namespace tw::te
