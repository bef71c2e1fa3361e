import type { ReactNode } from 'react';

export function Heading({ title, description, actions }: { title: string; description?: ReactNode; actions?: ReactNode }) {
  return (
    <div className="mb-4 flex flex-wrap items-start justify-between gap-3">
      <div className="min-w-0">
        <h2 className="text-base font-semibold">{title}</h2>
        {description && <p className="mt-0.5 max-w-prose text-[13px] text-muted">{description}</p>}
      </div>
      {actions}
    </div>
  );
}
